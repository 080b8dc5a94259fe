//! The binary with a command line of node-driver-registrar, as a unit or a container runs it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Output, Stdio};

use bed::process::signal_to;
use bed::registrar::{chosen, clear_environment};
use bed::scene::SOON;
use bed::{Process, eventually};
use nix::sys::signal::Signal;

use crate::PROGRAM;

/// A process that runs until it is stopped or dropped.
pub(crate) struct Unit {
    process: Process,
}

/// The binary in an empty environment.
pub(crate) fn command<A: AsRef<str>>(arguments: &[A]) -> Command {
    let mut command = Command::new(chosen(PROGRAM));
    clear_environment(&mut command).stdin(Stdio::null());
    for argument in arguments {
        command.arg(argument.as_ref());
    }
    command
}

/// Runs it to its end.
pub(crate) fn output<A: AsRef<str>>(arguments: &[A]) -> Output {
    command(arguments).output().unwrap()
}

impl Unit {
    /// Starts it with or without a runtime directory, which systemd would name.
    pub(crate) fn start<A: AsRef<str>>(
        arguments: &[A],
        runtime_dir: Option<&Path>,
        log: PathBuf,
    ) -> Unit {
        let mut command = command(arguments);
        if let Some(runtime_dir) = runtime_dir {
            command.env("RUNTIME_DIRECTORY", runtime_dir);
        }
        Unit::spawn(command, log)
    }

    /// Starts a command that the test has built itself.
    pub(crate) fn spawn(mut command: Command, log: PathBuf) -> Unit {
        // Lines of an earlier unit would answer wait_log.
        fs::write(&log, "").unwrap();
        Unit {
            process: Process::logging(&mut command, &log),
        }
    }

    pub(crate) fn logs(&self) -> String {
        self.process.logs()
    }

    #[track_caller]
    pub(crate) fn wait_log(&self, words: &str) -> String {
        let found = || {
            let logs = self.logs();
            if logs.contains(words) {
                Ok(logs)
            } else {
                Err(logs)
            }
        };
        eventually(words, SOON, found)
    }

    /// The runtime directory that it has chosen.
    pub(crate) fn runtime_dir(&self) -> PathBuf {
        let logs = self.wait_log("runtime_dir=\"");
        let (_, rest) = logs.split_once("runtime_dir=\"").unwrap();
        rest.split('"').next().unwrap().into()
    }

    /// The process itself. In its own pid namespace it is the child of the process that created the
    /// namespace.
    fn leader(&self) -> u32 {
        let pid = self.process.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let child = children.split_ascii_whitespace().next();
        child.map_or(pid, |child| child.parse().unwrap())
    }

    /// SIGTERM, then waits for its end.
    #[track_caller]
    pub(crate) fn stop(mut self) -> ExitStatus {
        signal_to(self.leader(), Signal::SIGTERM);
        self.process.wait(SOON)
    }
}
