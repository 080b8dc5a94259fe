//! The real registrar as a process.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::eventually::eventually;
use crate::footprint::Footprint;
use crate::node::Node;
use crate::process::{Process, read_log};
use crate::script;
use crate::status::{DriverStatus, Status};

const STARTED: &str = "the registrar was started";

/// The binary that tests run: `$REGISTRAR_BIN`, or else `program`.
pub fn chosen(program: impl Into<PathBuf>) -> PathBuf {
    let named = std::env::var_os("REGISTRAR_BIN").map(PathBuf::from);
    named.unwrap_or_else(|| program.into())
}

/// Clears the developer's environment: no NSDR_*, no NOTIFY_SOCKET, no JOURNAL_STREAM. The variable for
/// coverage stays.
pub fn clear_environment(command: &mut Command) -> &mut Command {
    command.env_clear();
    for kept in ["PATH", "LLVM_PROFILE_FILE", "RUST_BACKTRACE"] {
        if let Some(value) = std::env::var_os(kept) {
            command.env(kept, value);
        }
    }
    command
}

/// The binary with one node's configuration.
pub struct Registrar {
    program: PathBuf,
    config: PathBuf,
    runtime_dir: PathBuf,
    log: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    arguments: Vec<OsString>,
    process: Option<Process>,
}

impl Registrar {
    /// Not started yet. `$REGISTRAR_BIN` takes precedence over `program`, which is
    /// `env!("CARGO_BIN_EXE_node-storage-driver-registrar")` in the main crate's tests.
    pub fn new(program: impl Into<PathBuf>, node: &Node) -> Self {
        Self::exactly(chosen(program), node)
    }

    /// Not started yet, with exactly this program, such as a script around the [`chosen`] one.
    pub fn exactly(program: impl Into<PathBuf>, node: &Node) -> Self {
        Self {
            program: program.into(),
            config: node.config_file(),
            runtime_dir: node.runtime_dir(),
            log: node.root().join("registrar.log"),
            environment: BTreeMap::new(),
            arguments: Vec::new(),
            process: None,
        }
    }

    /// Not started yet, with `run` wrapped in a shell script. Other commands run as usual.
    ///
    /// The script finds the program and its arguments in `"$@"`, which it runs in the end.
    pub fn wrapped(program: impl Into<PathBuf>, node: &Node, script: &str) -> Self {
        let wrapper = node.root().join("registrar");
        let program = chosen(program);
        let program = program.display();
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = run ] || exec {program} \"$@\"\nset -- {program} \"$@\"\n{script}\n"
        );
        script::write(&wrapper, &text);
        Self::exactly(wrapper, node)
    }

    /// The same with one more variable, such as `NOTIFY_SOCKET`.
    #[must_use]
    pub fn with_env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let key = key.as_ref().to_owned();
        self.environment.insert(key, value.as_ref().to_owned());
        self
    }

    /// The same with one more argument after `run --config … --runtime-dir …`.
    #[must_use]
    pub fn with_argument(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// Starts it and returns at once.
    #[track_caller]
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "the registrar runs already");
        let mut command = self.command("run");
        self.process = Some(Process::logging(command.args(&self.arguments), &self.log));
    }

    /// SIGTERM, then waits for its end.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        let mut process = self.process.take().expect(STARTED);
        process.stop()
    }

    /// SIGKILL, then waits for its end.
    #[track_caller]
    pub fn kill9(&mut self) {
        let mut process = self.process.take().expect(STARTED);
        process.kill();
    }

    /// [`Self::stop`] and [`Self::start`].
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// Sends a signal and does not wait.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        self.process.as_ref().expect(STARTED).signal(signal);
    }

    /// Waits until it has ended.
    #[track_caller]
    pub fn wait_exit(&mut self, deadline: Duration) -> ExitStatus {
        let status = self.process.as_mut().expect(STARTED).wait(deadline);
        self.process = None;
        status
    }

    /// Whether it was started and has not ended, by itself or by the test.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// Its process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect(STARTED).pid()
    }

    /// `status --json`, or nothing while no daemon answers.
    #[track_caller]
    pub fn status(&self) -> Option<Status> {
        let output = self.run_cli(["status", "--json"]);
        (!output.stdout.is_empty()).then(|| Status::parse(&output.stdout))
    }

    /// Waits until the driver is in the phase.
    #[track_caller]
    pub fn wait_phase(&self, id: &str, phase: &str, deadline: Duration) -> DriverStatus {
        self.wait_driver(&format!("{id} is {phase}"), id, deadline, |driver| {
            driver.phase == phase
        })
    }

    /// Waits until the driver is in the phase, with these words in the reason.
    #[track_caller]
    pub fn wait_reason(
        &self,
        id: &str,
        phase: &str,
        words: &str,
        deadline: Duration,
    ) -> DriverStatus {
        let what = format!("{id} is {phase}: …{words}…");
        self.wait_driver(&what, id, deadline, |driver| {
            driver.phase == phase && driver.reason.as_deref().unwrap_or("").contains(words)
        })
    }

    /// Waits until the driver's status is as wanted.
    #[track_caller]
    pub fn wait_driver(
        &self,
        what: &str,
        id: &str,
        deadline: Duration,
        wanted: impl Fn(&DriverStatus) -> bool,
    ) -> DriverStatus {
        eventually(what, deadline, || self.driver_status(id, &wanted))
    }

    /// The driver's status if it is as wanted, or else the whole status.
    pub(crate) fn driver_status(
        &self,
        id: &str,
        wanted: impl Fn(&DriverStatus) -> bool,
    ) -> Result<DriverStatus, String> {
        let status = self.status().ok_or("no daemon answers")?;
        match status.driver(id) {
            Some(driver) if wanted(driver) => Ok(driver.clone()),
            _ => Err(format!("{status:#?}")),
        }
    }

    /// Runs another command of the binary with the same configuration and environment.
    #[track_caller]
    pub fn run_cli<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Output {
        let mut arguments = arguments.into_iter();
        let subcommand = arguments.next().expect("a subcommand");
        self.command(subcommand)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn succeed(&self, arguments: &[&str]) -> Output {
        let output = self.run_cli(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        output
    }

    /// Its footprint while it runs.
    #[track_caller]
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.pid())
    }

    /// Resident memory in KiB.
    pub fn rss_kb(&self) -> u64 {
        self.footprint().rss_kb()
    }

    /// The private part of it in KiB, without the program, which becomes resident page by page as it
    /// runs.
    pub fn private_kb(&self) -> u64 {
        self.footprint().anonymous_kb()
    }

    /// Threads of the process.
    pub fn thread_count(&self) -> u64 {
        self.footprint().thread_count()
    }

    /// Open file descriptors.
    pub fn fd_count(&self) -> usize {
        self.footprint().fd_count()
    }

    /// How often its threads have gone to sleep so far, which equals their wake-ups.
    pub fn wakeups(&self) -> u64 {
        self.footprint().wakeups()
    }

    /// Its stdout and stderr, of all its starts.
    pub fn logs(&self) -> String {
        read_log(&self.log)
    }

    /// A command as words, for a test that runs it in a shell or as another user.
    pub fn command_line(&self, subcommand: &str) -> Vec<String> {
        let text = |path: &PathBuf| path.display().to_string();
        vec![
            text(&self.program),
            subcommand.to_owned(),
            "--config".to_owned(),
            text(&self.config),
            "--runtime-dir".to_owned(),
            text(&self.runtime_dir),
        ]
    }

    /// A command with the same configuration and environment, for a test that runs it itself.
    pub fn command(&self, subcommand: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(&self.program);
        clear_environment(&mut command)
            .envs(&self.environment)
            .arg(subcommand)
            .arg("--config")
            .arg(&self.config)
            .arg("--runtime-dir")
            .arg(&self.runtime_dir);
        command
    }
}

impl Drop for Registrar {
    fn drop(&mut self) {
        // A process that runs prints its log itself.
        if self.process.is_none() && std::thread::panicking() {
            eprintln!("--- the registrar's log\n{}---", self.logs());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::scene::SOON;

    /// A shell script in place of the registrar: `run` prints its environment and waits, `status`
    /// answers meanwhile.
    const SCRIPT: &str = r#"#!/bin/sh
case "$1" in
run)
    env >&2
    echo "$@" > "$5/arguments"
    trap 'rm -f "$5/up"; exit 3' TERM
    touch "$5/up"
    while :; do sleep 0.01; done ;;
status)
    [ "$6" = --json ] && [ -e "$5/up" ] && cat <<END
{"version":"1","ready":true,"kubelet":{"plugins_registry":"/k","pid":null},"notes":[],
 "drivers":[{"id":"d","name":"d","phase":"registered","reason":"so","since":"2026-01-01T00:00:00Z",
   "csi_socket":"/c","endpoint":"/c","registration_socket":"/r","link":"/l","node_id":"n",
   "vendor_version":"1","answering":true,"volumes":2,"in_cluster":null,"cluster_checked":null,"registrations":1,"rejections":0,"announcements":1,
   "link_repairs":0,"last_error":null}]}
END
    exit 1 ;;
esac
"#;

    fn registrar(node: &Node) -> Registrar {
        let program = node.root().join("registrar");
        crate::script::write(&program, SCRIPT);
        Registrar::exactly(program, node)
    }

    #[test]
    fn runs_the_binary_and_reads_its_status() {
        let node = Node::new();
        let mut registrar = registrar(&node).with_env("NSDR_LOG__LEVEL", "debug");
        assert_eq!(registrar.status(), None);
        registrar.start();
        let driver = registrar.wait_phase("d", "registered", SOON);
        assert_eq!(driver.registrations, 1);
        assert!(registrar.rss_kb() > 0 && registrar.fd_count() >= 3);
        assert_eq!(registrar.thread_count(), 1);
        assert_eq!(registrar.stop().code(), Some(3));
        assert!(!registrar.is_running());

        registrar.start();
        registrar.wait_phase("d", "registered", SOON);
        registrar.kill9();
        let arguments = fs::read_to_string(node.runtime_dir().join("arguments")).unwrap();
        assert!(arguments.starts_with("run --config /tmp/nsdr-"));
    }

    #[test]
    fn starts_it_with_the_environment_of_the_test_alone() {
        let node = Node::new();
        let mut registrar = registrar(&node).with_env("NOTIFY_SOCKET", "/n");
        registrar.start();
        registrar.wait_phase("d", "registered", SOON);
        let logs = registrar.logs();
        assert!(logs.contains("NOTIFY_SOCKET=/n"));
        // cargo sets it for this test.
        assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
        assert!(!logs.contains("CARGO_MANIFEST_DIR"));
    }
}
