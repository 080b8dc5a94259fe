//! The program verify: where it is, and what it answers to the doctor.
//!
//! It is a program of its own, so that the daemon has no network, no TLS and none of their size.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use thiserror::Error;
use tokio::process::Command;
use tokio::time::timeout;

use super::report::Report;
use crate::os::text::printable;

const NAME: &str = "verify";
/// Where the packages have it, below the parent of the `bin` directory.
const PACKAGED: &str = "lib/node-storage-driver-registrar";
/// The program's own time for the API server is 10 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why the program has no report.
#[derive(Debug, Error)]
pub(crate) enum NoReport {
    #[error("cannot find the path of this program: {0}")]
    NoPath(io::Error),
    #[error(
        "{} does not exist; the packages contain it, and cargo build --features cluster builds it",
        .0.display()
    )]
    Missing(PathBuf),
    #[error("cannot run {}: {source}", .program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("{} did not end within {PATIENCE:?}", .0.display())]
    Late(PathBuf),
    /// In the program's own words.
    #[error("{0}")]
    Refused(String),
}

impl NoReport {
    /// Why the program could not be started.
    pub(crate) fn not_started(program: PathBuf, source: io::Error) -> NoReport {
        match source.kind() {
            io::ErrorKind::NotFound => NoReport::Missing(program),
            _ => NoReport::Run { program, source },
        }
    }
}

/// The path of the program: as packaged if this program is in a `bin` directory, or else beside this program.
pub(crate) fn path() -> Result<PathBuf, NoReport> {
    let own = env::current_exe().map_err(NoReport::NoPath)?;
    Ok(beside(&own))
}

fn beside(own: &Path) -> PathBuf {
    let directory = own.parent().unwrap_or(Path::new("/"));
    match directory.parent() {
        Some(prefix) if directory.ends_with("bin") => prefix.join(PACKAGED).join(NAME),
        Some(_) | None => directory.join(NAME),
    }
}

/// What the program finds for a daemon with this runtime directory.
pub(crate) async fn ask(config: Option<&Path>, runtime: &Path) -> Result<Report, NoReport> {
    let program = path()?;
    let mut command = Command::new(&program);
    command
        .args([NAME, "--json", "--no-report"].map(OsStr::new))
        .args([OsStr::new("--runtime-dir"), runtime.as_os_str()])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    if let Some(config) = config {
        command.args([OsStr::new("--config"), config.as_os_str()]);
    }
    let output = timeout(PATIENCE, command.output()).await;
    let output = output.map_err(|_| NoReport::Late(program.clone()))?;
    let output = output.map_err(|source| NoReport::not_started(program, source))?;
    serde_json::from_slice(&output.stdout).map_err(|_| {
        let words = String::from_utf8_lossy(&output.stderr);
        NoReport::Refused(refusal(&words, output.status))
    })
}

/// The last line of the program's words, without what each of its errors begins with.
fn refusal(words: &str, status: ExitStatus) -> String {
    let Some(last) = words.lines().next_back() else {
        return format!("verify ended without a report: {status}");
    };
    let last = last.strip_prefix("error: ").unwrap_or(last);
    let reason = last.strip_prefix("the cluster could not be asked: ");
    printable(reason.unwrap_or(last))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn the_program_is_where_the_packages_have_it_or_beside_a_build() {
        for (own, program) in [
            (
                "/usr/bin/node-storage-driver-registrar",
                "/usr/lib/node-storage-driver-registrar/verify",
            ),
            (
                "/src/target/release/node-storage-driver-registrar",
                "/src/target/release/verify",
            ),
        ] {
            assert_eq!(beside(Path::new(own)), Path::new(program));
        }
    }

    #[test]
    fn the_reason_is_not_introduced_twice() {
        let words = "warning: x\nerror: the cluster could not be asked: no kubeconfig\n";
        let failed = ExitStatus::from_raw(69 << 8);
        assert_eq!(refusal(words, failed), "no kubeconfig");
        assert_eq!(refusal("error: no daemon", failed), "no daemon");
        let killed = refusal("", ExitStatus::from_raw(9));
        assert!(killed.contains("signal: 9"), "{killed}");
    }
}
