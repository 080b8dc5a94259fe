//! A process: its pid and start time, its name and unit, and whether it still runs.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use tokio::io::Interest;
use tokio::time::sleep;

use crate::os::async_fd::async_fd;
use crate::os::text::printable;

/// How often /proc is read if the kernel has no pidfd (before 5.3).
const LOOK_AGAIN: Duration = Duration::from_secs(5);

const SERVICE: &str = ".service";
const PROC: &str = "/proc";

/// A process, told apart from every later process with the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Process {
    /// In our own pid namespace.
    pub pid: u32,
    /// Clock ticks since boot, from /proc/PID/stat.
    pub started: u64,
}

impl Process {
    /// The process with this pid now; none if it has ended or /proc does not show it.
    pub(crate) fn of(pid: u32) -> Option<Process> {
        Process::read(pid, read_stat(pid)).ok().flatten()
    }

    /// The process that has called us. A process that has ended gets a value that never counts as
    /// running; none if /proc does not show the process.
    pub(crate) fn behind(pid: u32) -> Option<Process> {
        let ended = Process {
            pid,
            started: u64::MAX,
        };
        let is_gone = || ended.open().is_err_and(|error| is_no_process(&error));
        Process::of(pid).or_else(|| is_gone().then_some(ended))
    }

    pub(crate) fn is_running(self) -> bool {
        self.is_said_to_run(read_stat(self.pid))
    }

    /// A process that we cannot check, for example without a free file descriptor, counts as
    /// running.
    fn is_said_to_run(self, stat: io::Result<String>) -> bool {
        Process::read(self.pid, stat).map_or(true, |now| now == Some(self))
    }

    fn read(pid: u32, stat: io::Result<String>) -> io::Result<Option<Process>> {
        match stat {
            Ok(stat) => Ok(started(&stat).map(|started| Process { pid, started })),
            Err(error) if error.kind() == io::ErrorKind::NotFound || is_no_process(&error) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Resolves when the process has ended.
    pub(crate) async fn ended(self) {
        let waited = match self.open() {
            // Another process may have got the pid before we opened the pidfd.
            Ok(_) if !self.is_running() => return,
            Ok(fd) => end_of(fd).await,
            Err(error) => Err(error),
        };
        if let Err(error) = waited
            && !is_no_process(&error)
        {
            tracing::debug!(%error, pid = self.pid, "cannot wait on a pidfd; reading /proc instead");
            while self.is_running() {
                sleep(LOOK_AGAIN).await;
            }
        }
    }

    fn open(self) -> io::Result<OwnedFd> {
        let pid = i32::try_from(self.pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(io::ErrorKind::InvalidInput)?;
        Ok(pidfd_open(pid, PidfdFlags::empty())?)
    }
}

/// The process for an operator: its pid, its name and its systemd unit, as far as they are known.
pub(crate) fn describe(pid: u32) -> String {
    described(Path::new(PROC), pid)
}

/// The systemd service that a process belongs to directly. A container may be in a control group below the
/// service of its runtime, which must not be stopped for it; a scope cannot be started again. The services of
/// a user's manager, and of a container that has a manager of its own, are below another unit, and systemctl
/// does not find them.
pub(crate) fn service(pid: u32) -> Option<String> {
    service_in(Path::new(PROC), pid)
}

/// The same, as this proc file system shows it.
pub(crate) fn service_in(proc: &Path, pid: u32) -> Option<String> {
    own_service(&cgroup(proc, pid)?).map(printable)
}

fn cgroup(proc: &Path, pid: u32) -> Option<String> {
    fs::read_to_string(proc.join(pid.to_string()).join("cgroup")).ok()
}

fn own_service(cgroup: &str) -> Option<&str> {
    let unit = unit(cgroup).filter(|unit| unit.ends_with(SERVICE))?;
    let mut lines = cgroup.lines().filter_map(|line| line.strip_suffix(unit));
    let is_of_the_system = |above: &str| above.ends_with('/') && !above.split('/').any(is_unit);
    lines.any(is_of_the_system).then_some(unit)
}

/// The process for an operator, as this proc file system shows it.
pub(crate) fn described(proc: &Path, pid: u32) -> String {
    // The process chooses its name itself.
    let name = fs::read_to_string(proc.join(pid.to_string()).join("comm"));
    let name = name.ok().map(|name| printable(&name));
    let known: Vec<String> = name.into_iter().chain(unit_of(proc, pid)).collect();
    match known.is_empty() {
        true => format!("pid {pid}"),
        false => format!("pid {pid} ({})", known.join(", ")),
    }
}

fn unit_of(proc: &Path, pid: u32) -> Option<String> {
    unit(&cgroup(proc, pid)?).map(printable)
}

/// The service or scope of a process, from /proc/PID/cgroup: systemd gives each a control group of its
/// own, and a container runtime may have further groups below it. The hierarchy that systemd uses is
/// the unified one (`0::`), or `name=systemd` beside those of version 1.
fn unit(cgroup: &str) -> Option<&str> {
    let paths = |hierarchy: &'static str| {
        let lines = cgroup.lines().filter_map(|line| line.split_once(':'));
        lines.filter_map(move |(_, line)| line.strip_prefix(hierarchy))
    };
    let mut paths = paths("name=systemd:").chain(paths(":"));
    paths.find_map(|path| path.rsplit('/').find(|part| is_unit(part)))
}

fn is_unit(part: &str) -> bool {
    part.ends_with(SERVICE) || part.ends_with(".scope")
}

async fn end_of(process: OwnedFd) -> io::Result<()> {
    let process = async_fd(process, Interest::READABLE)?;
    process.ready(Interest::READABLE).await.map(drop)
}

fn is_no_process(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

fn read_stat(pid: u32) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/stat"))
}

/// The start time is the 22nd field. The second field, the command's name in brackets, may contain
/// anything.
fn started(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn reads_the_start_time_behind_a_name_with_brackets_and_blanks() {
        let stat = format!(
            "7 (a) b (c) S {} 4711 0 0",
            (1..=18).map(|n| n.to_string() + " ").collect::<String>()
        );
        assert_eq!(started(&stat), Some(4711));
        assert_eq!(started("7 (a"), None);
        assert_eq!(started("7 (a) S 1"), None);
    }

    #[test]
    fn a_pid_with_another_start_time_is_another_process() {
        let me = Process::of(std::process::id()).unwrap();
        assert!(me.is_running());
        assert!(
            !Process {
                started: me.started + 1,
                ..me
            }
            .is_running()
        );
    }

    #[test]
    fn a_process_that_cannot_be_looked_at_has_not_ended() {
        let me = Process::of(std::process::id()).unwrap();
        let failed = |errno: Errno| Err(io::Error::from(errno));
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::ACCESS] {
            assert!(me.is_said_to_run(failed(errno)), "{errno}");
        }
        for errno in [Errno::NOENT, Errno::SRCH] {
            assert!(!me.is_said_to_run(failed(errno)), "{errno}");
        }
    }

    #[test]
    fn a_process_has_the_unit_of_its_last_service_or_scope() {
        let unified = "0::/system.slice/ndr.service/payload\n";
        assert_eq!(unit(unified), Some("ndr.service"));
        let pod = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-9f.scope\n";
        assert_eq!(unit(pod), Some("cri-containerd-9f.scope"));
        let nested = "0::/user.slice/user@0.service/app.slice/run-1.scope\n";
        assert_eq!(unit(nested), Some("run-1.scope"));
        let hybrid = "3:cpu,cpuacct:/x.service\n1:name=systemd:/system.slice/a.service\n0::/\n";
        assert_eq!(unit(hybrid), Some("a.service"));
        assert_eq!(
            own_service("0::/system.slice/a.service\n"),
            Some("a.service")
        );
        // systemctl asks the system's manager, which does not have the units of a user's manager.
        let of_user = "0::/user.slice/user-0.slice/user@0.service/app.slice/ndr.service\n";
        for inner in [
            pod,
            nested,
            of_user,
            "0::/system.slice/containerd.service/kubepods-pod1:cri:9f\n",
            "0::/system.slice/nfs.service/libpod-payload-9f\n",
        ] {
            assert_eq!(own_service(inner), None, "{inner}");
        }
        for none in ["", "0::/\n", "0::/docker/9f\n", "garbage"] {
            assert_eq!(unit(none), None, "{none}");
        }
    }

    #[test]
    fn a_process_is_described_by_what_is_known_of_it() {
        let proc = tempfile::tempdir().unwrap();
        assert_eq!(described(proc.path(), 7), "pid 7");
        let process = proc.path().join("7");
        fs::create_dir(&process).unwrap();
        fs::write(process.join("comm"), "a\u{1b}b\n").unwrap();
        assert_eq!(described(proc.path(), 7), "pid 7 (a\\u{1b}b)");
        fs::write(process.join("cgroup"), "0::/system.slice/ndr.service\n").unwrap();
        assert_eq!(described(proc.path(), 7), "pid 7 (a\\u{1b}b, ndr.service)");
    }

    #[tokio::test]
    async fn notices_the_end_of_a_process() {
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let process = Process::of(child.id()).unwrap();
        let ended = tokio::spawn(process.ended());
        tokio::task::yield_now().await;
        child.kill().unwrap();
        child.wait().unwrap();
        tokio::time::timeout(Duration::from_secs(5), ended)
            .await
            .expect("the end was not noticed")
            .unwrap();
        assert!(!process.is_running());
        process.ended().await;
    }

    #[tokio::test]
    async fn a_caller_that_has_ended_since_does_not_run() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let process = Process::behind(pid).unwrap();
        assert!(!process.is_running());
        process.ended().await;
        let me = std::process::id();
        assert_eq!(Process::behind(me), Process::of(me));
    }
}
