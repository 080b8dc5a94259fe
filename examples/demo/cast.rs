//! The registrar's process, and questions to the registrar, the kubelet and the disk.

use std::env;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bed::kubelet::Mark;
use bed::{KubeletProcess, Node, Registrar};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use crate::leftovers::note_registrar;
use crate::patience::{Failure, Looks, until};

/// The driver's name. It is also the name of its directory.
pub(crate) const DRIVER: &str = "disk.example.com";

/// The variable that makes this executable run as the registrar.
const ASKED: &str = "DEMO_BECOME_REGISTRAR";

/// Lines of the registrar's log that are shown when a step fails.
const LOG_LINES: usize = 12;

/// Runs the registrar if this process was started for that.
pub(crate) fn become_registrar_if_asked() -> Option<ExitCode> {
    env::var_os(ASKED)?;
    // The registrar ends with the demo, however the demo ends.
    if let Err(error) = set_pdeathsig(Signal::SIGKILL) {
        eprintln!("demo: the registrar may outlive the demo: {error}");
    }
    Some(node_storage_driver_registrar::cli::main(env::args_os()))
}

/// The registrar's process.
pub(crate) struct Daemon {
    registrar: Registrar,
}

impl Daemon {
    pub(crate) fn new(node: &Node) -> Result<Daemon, Failure> {
        let program = env::current_exe().map_err(Failure::other)?;
        let registrar = Registrar::new(program, node).with_env(ASKED, "1");
        Ok(Daemon { registrar })
    }

    pub(crate) fn start(&mut self) -> u32 {
        self.registrar.start();
        note_registrar(Some(self.registrar.pid()));
        self.registrar.pid()
    }

    pub(crate) fn kill9(&mut self) {
        self.registrar.kill9();
        note_registrar(None);
    }

    /// Sends SIGTERM, waits for the end, and says how long that took.
    pub(crate) fn stop(&mut self) -> Result<Duration, Failure> {
        let start = Instant::now();
        self.registrar.signal(Signal::SIGTERM);
        let ((), taken) = until("the registrar ends", Looks::Closely, start, || {
            if self.registrar.is_running() {
                Err("it still runs".to_owned())
            } else {
                Ok(())
            }
        })?;
        note_registrar(None);
        let status = self.registrar.wait_exit(Duration::ZERO);
        if status.success() {
            Ok(taken)
        } else {
            Err(Failure::Wrong(format!("the registrar ended with {status}")))
        }
    }

    /// Asks `status` until the driver is in the phase, and returns its reason.
    pub(crate) fn wait_phase(&self, phase: &str) -> Result<String, Failure> {
        let what = format!("the registrar's status says {phase}");
        let look = || {
            let status = self.registrar.status().ok_or("no daemon answers")?;
            let driver = status.driver(DRIVER).ok_or("no such driver")?;
            let reason = driver.reason.clone().unwrap_or_default();
            // Just after a start the registrar has no answer of the driver yet.
            if driver.phase == phase && !reason.contains("asks the driver") {
                Ok(reason)
            } else {
                Err(format!("{}: {reason}", driver.phase))
            }
        };
        until(&what, Looks::AtEase, Instant::now(), look).map(|(reason, _)| reason)
    }

    /// Adds the end of the registrar's log to the failure.
    pub(crate) fn with_log(&self, failure: Failure) -> Failure {
        let logs = self.registrar.logs();
        let lines: Vec<&str> = logs.lines().collect();
        if lines.is_empty() {
            return Failure::Wrong(format!("{failure}\n\nthe registrar's log is empty"));
        }
        let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
        Failure::Wrong(format!(
            "{failure}\n\nthe registrar's log:\n{}",
            end.join("\n")
        ))
    }
}

/// Waits until the kubelet has, or no longer has, the driver.
pub(crate) fn wait_kubelet(
    kubelet: &KubeletProcess,
    registered: bool,
    start: Instant,
) -> Result<Duration, Failure> {
    let what = format!("the kubelet has registered the driver: {registered}");
    let look = || {
        let drivers = kubelet.registered();
        if drivers.contains_key(DRIVER) == registered {
            Ok(())
        } else {
            Err(format!("it has {:?}", drivers.keys()))
        }
    };
    until(&what, Looks::AtEase, start, look).map(|((), taken)| taken)
}

/// What the kubelet did since the mark, in words.
pub(crate) fn seen(kubelet: &KubeletProcess, mark: Mark) -> String {
    let counts = kubelet.counts_since(mark);
    let number = |count: usize, one: &str, many: &str| match count {
        1 => format!("1 {one}"),
        _ => format!("{count} {many}"),
    };
    [
        number(
            counts.deregistrations,
            "de-registration",
            "de-registrations",
        ),
        number(counts.registrations, "registration", "registrations"),
        number(counts.api_writes(), "write", "writes"),
    ]
    .join(", ")
        + " to the cluster"
}

/// What the kubelet did since the mark, in words; fails if the kubelet noticed anything.
pub(crate) fn nothing_happened(kubelet: &KubeletProcess, mark: Mark) -> Result<String, Failure> {
    let seen = seen(kubelet, mark);
    if kubelet.since(mark).is_empty() {
        Ok(seen)
    } else {
        let records = kubelet.since(mark);
        Err(Failure::Wrong(format!(
            "the kubelet noticed something: {seen}: {records:?}"
        )))
    }
}

/// Fails unless a process listens on the socket.
pub(crate) fn listens(socket: &Path) -> Result<(), String> {
    UnixStream::connect(socket)
        .map(drop)
        .map_err(|error| error.to_string())
}

/// The target of the link; fails if the link does not exist.
pub(crate) fn leads(link: &Path) -> Result<String, String> {
    match fs::read_link(link) {
        Ok(target) => Ok(target.display().to_string()),
        Err(error) => Err(error.to_string()),
    }
}
