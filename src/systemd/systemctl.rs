//! Questions to systemd, asked with `systemctl`.
//!
//! For root, systemctl speaks to systemd's private socket, which also answers while the bus daemon
//! is down, as it is during a shutdown. The unit's sandbox allows it: it is a program of the host
//! that connects to a Unix socket.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;
use tokio::time::{sleep, timeout};

/// An answer takes about 10 ms. A systemd that does not answer must not delay a start, a reload or
/// a stop for longer than this.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Why systemd did not answer.
#[derive(Debug, Error)]
pub(super) enum SystemctlError {
    #[error("cannot run systemctl: {0}")]
    Run(#[from] io::Error),
    #[error("systemctl {question} failed: {message}")]
    Failed { question: String, message: String },
    #[error("systemctl did not answer within {TIMEOUT:?}")]
    TimedOut,
    #[error("/proc/self/cgroup names no unit")]
    NoUnit,
}

/// The program. Tests have a program of their own.
#[derive(Clone, Copy)]
pub(super) struct Systemctl<'a>(pub(super) &'a str);

/// Found where the distributions have it, whatever `PATH` the environment has: root runs it.
pub(super) const SYSTEMCTL: Systemctl<'static> = Systemctl("systemctl");

impl Systemctl<'_> {
    /// The lines that systemctl prints. A systemctl that exceeds the timeout is killed.
    ///
    /// With KillMode=control-group, and on `systemctl kill`, systemd may send the SIGTERM that ends us
    /// to our systemctl as well. It does so once, so that the next systemctl lives.
    pub(super) async fn ask(self, question: &[&str]) -> Result<String, SystemctlError> {
        let mut command = Command::new(self.0);
        command
            .args(question)
            .env("PATH", "/usr/bin:/bin")
            // The unit's environment may ask for colours, which would end up in our words.
            .env("SYSTEMD_COLORS", "0")
            // A systemctl that fails reports ERRNO= there, in the name of the unit.
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let mut output = command.output().await?;
        while output.status.signal().is_some() {
            sleep(Duration::from_millis(5)).await;
            output = command.output().await?;
        }
        if !output.status.success() {
            return Err(SystemctlError::Failed {
                question: question.join(" "),
                message: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// All answers together have to come within [`TIMEOUT`].
pub(super) async fn in_time<T>(
    answers: impl Future<Output = Result<T, SystemctlError>>,
) -> Result<T, SystemctlError> {
    timeout(TIMEOUT, answers)
        .await
        .unwrap_or(Err(SystemctlError::TimedOut))
}

#[cfg(test)]
pub(super) mod tests {
    use std::process::Command;

    use tempfile::TempDir;

    /// A systemctl that runs these lines of shell. Another process writes the file: a test that starts
    /// a process at the same time would inherit our descriptor, and the kernel runs no file that is
    /// open for writing (ETXTBSY).
    pub(in crate::systemd) fn script(lines: &str) -> (TempDir, String) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("systemctl");
        let write = r##"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod +x "$0""##;
        let mut shell = Command::new("sh");
        shell.args(["-c", write]).arg(&path).arg(lines);
        assert!(shell.status().unwrap().success());
        (dir, path.into_os_string().into_string().unwrap())
    }
}
