//! node-driver-registrar, or another program with its flags, as a process for one driver.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::footprint::Footprint;
use crate::process::Process;

/// The program with one driver's flags.
pub struct SidecarProcess {
    program: PathBuf,
    csi_socket: PathBuf,
    registry_dir: PathBuf,
    runtime_dir: PathBuf,
    process: Option<Process>,
}

impl SidecarProcess {
    /// Not started yet. The registration socket goes to `registry_dir`; `runtime_dir` is for a program
    /// with its own state.
    pub fn new(program: &Path, csi_socket: &Path, registry_dir: &Path, runtime_dir: &Path) -> Self {
        Self {
            program: program.to_owned(),
            csi_socket: csi_socket.to_owned(),
            registry_dir: registry_dir.to_owned(),
            runtime_dir: runtime_dir.to_owned(),
            process: None,
        }
    }

    /// Starts it and returns at once.
    #[track_caller]
    pub fn start(&mut self) {
        assert!(self.process.is_none(), "it runs already");
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env("RUNTIME_DIRECTORY", &self.runtime_dir)
            .arg(flag("--csi-address", &self.csi_socket))
            .arg(flag("--kubelet-registration-path", &self.csi_socket))
            .arg(flag("--plugin-registration-path", &self.registry_dir))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        self.process = Some(Process::start(&mut command));
    }

    /// SIGTERM, then waits for its end, unless it ended by itself.
    #[track_caller]
    pub fn stop(&mut self) {
        let mut process = self.process.take().expect("it was started");
        if process.is_running() {
            process.stop();
        }
    }

    /// Whether it was started and has not ended.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// Its process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("it was started").pid()
    }

    /// Its footprint while it runs.
    #[track_caller]
    pub fn footprint(&self) -> Footprint {
        Footprint::of(self.pid())
    }
}

fn flag(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}
