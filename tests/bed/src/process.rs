//! A child process that ends with its owner.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{
    Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio,
};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::eventually::eventually;

/// How long an orderly end may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that was started and not yet waited for; dropping it kills it.
pub struct Process {
    program: String,
    /// None once [`Self::output`] has taken it.
    child: Option<Child>,
    log: Option<PathBuf>,
}

impl Process {
    /// Starts it and returns at once. Stdin, stdout and stderr are as the command has them.
    #[track_caller]
    pub fn start(command: &mut Command) -> Self {
        let program = command.get_program().to_string_lossy().into_owned();
        let child = command
            .spawn()
            .unwrap_or_else(|error| panic!("start {program}: {error}"));
        Self {
            program,
            child: Some(child),
            log: None,
        }
    }

    /// The same with stdin closed and both outputs appended to `log`, which a failing test prints.
    #[track_caller]
    pub fn logging(command: &mut Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        command
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        let mut process = Self::start(command);
        process.log = Some(log.to_owned());
        process
    }

    /// Its pid.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Sends a signal and does not wait.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        signal_to(self.pid(), signal);
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child_mut().try_wait().unwrap().is_none()
    }

    /// SIGTERM, then waits for its end.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.wait(PATIENCE)
    }

    /// SIGKILL, then waits for its end.
    ///
    /// # Panics
    /// When it had ended by itself, unless the test is failing already.
    #[track_caller]
    pub fn kill(&mut self) {
        let status = self.end();
        if status.signal() != Some(9) && !thread::panicking() {
            panic!("{} had ended by itself: {status}", self.program);
        }
    }

    /// Waits for its end.
    #[track_caller]
    pub fn wait(&mut self, deadline: Duration) -> ExitStatus {
        let what = format!("{} ends", self.program);
        let child = self.child_mut();
        eventually(&what, deadline, || child.try_wait().unwrap())
    }

    /// Reads the piped outputs to their end, and waits for the process.
    pub fn output(mut self) -> Output {
        let child = self.child.take().expect("only here is it taken");
        child.wait_with_output().unwrap()
    }

    /// The piped stdin; once.
    pub fn stdin(&mut self) -> ChildStdin {
        self.child_mut().stdin.take().expect("stdin is piped")
    }

    /// The piped stdout; once.
    pub fn stdout(&mut self) -> ChildStdout {
        self.child_mut().stdout.take().expect("stdout is piped")
    }

    /// The piped stderr; once.
    pub fn stderr(&mut self) -> ChildStderr {
        self.child_mut().stderr.take().expect("stderr is piped")
    }

    /// Everything in the log, of earlier processes with the same log too.
    pub fn logs(&self) -> String {
        self.log.as_deref().map(read_log).unwrap_or_default()
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        let child = self.child_mut();
        // It may have ended by itself; both calls accept that until the process is reaped.
        child.kill().unwrap();
        child.wait().unwrap()
    }

    fn child(&self) -> &Child {
        self.child.as_ref().expect("output takes the process along")
    }

    fn child_mut(&mut self) -> &mut Child {
        self.child.as_mut().expect("output takes the process along")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.end();
        }
        if self.log.is_some() && thread::panicking() {
            eprintln!("--- the log of {}\n{}---", self.program, self.logs());
        }
    }
}

/// Sends a signal to a process that the test has found by its pid.
#[track_caller]
pub fn signal_to(pid: u32, signal: Signal) {
    kill(Pid::from_raw(pid.cast_signed()), signal).unwrap();
}

/// The text of a log file, empty while there is none.
pub(crate) fn read_log(path: &Path) -> String {
    match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => panic!("read {}: {error}", path.display()),
    }
}
