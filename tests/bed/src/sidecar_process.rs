//! node-driver-registrar, or whatever else takes its flags, run as a process for one driver.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::eventually::eventually;
use crate::footprint::Footprint;

/// How long an orderly end may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program with one driver's flags; started and ended as its owner says.
pub struct SidecarProcess {
    program: PathBuf,
    csi_socket: PathBuf,
    registry_dir: PathBuf,
    runtime_dir: PathBuf,
    child: Option<Child>,
}

impl SidecarProcess {
    /// Not started yet. The registration socket goes to `registry_dir`; `runtime_dir` is for a
    /// program that keeps state of its own.
    pub fn new(program: &Path, csi_socket: &Path, registry_dir: &Path, runtime_dir: &Path) -> Self {
        Self {
            program: program.to_owned(),
            csi_socket: csi_socket.to_owned(),
            registry_dir: registry_dir.to_owned(),
            runtime_dir: runtime_dir.to_owned(),
            child: None,
        }
    }

    /// Starts it and returns at once.
    #[track_caller]
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let child = Command::new(&self.program)
            .env_clear()
            .env("RUNTIME_DIRECTORY", &self.runtime_dir)
            .arg(flag("--csi-address", &self.csi_socket))
            .arg(flag("--kubelet-registration-path", &self.csi_socket))
            .arg(flag("--plugin-registration-path", &self.registry_dir))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child =
            child.unwrap_or_else(|error| panic!("start {}: {error}", self.program.display()));
        self.child = Some(child);
    }

    /// SIGTERM, then waits for its end; one that ended by itself is fine.
    #[track_caller]
    pub fn stop(&mut self) {
        if self.is_running() {
            kill(Pid::from_raw(self.pid().cast_signed()), Signal::SIGTERM).unwrap();
        }
        let child = self.child.as_mut().expect("it was started");
        eventually("it ends", PATIENCE, || child.try_wait().unwrap());
        self.child = None;
    }

    /// Whether it was started and has not ended.
    pub fn is_running(&mut self) -> bool {
        let child = self.child.as_mut();
        child.is_some_and(|child| child.try_wait().unwrap().is_none())
    }

    /// Its process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was started").id()
    }

    /// What it costs while it runs.
    #[track_caller]
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.pid())
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

impl Drop for SidecarProcess {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended by itself; both calls are fine with that until it is reaped.
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
