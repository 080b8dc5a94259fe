//! The node itself: which processes run on it, and not in a container.
//!
//! Root in a container is uid 0 as well, and may call itself whatever it likes. It cannot choose
//! its mounts: a container has a mount namespace and a root of its own, even if it shares our
//! processes (hostPID).

use std::cell::LazyCell;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::os::peer::is_trusted;

/// The node, as its /proc shows it.
pub(crate) struct Host<'a> {
    pub(super) proc: &'a Path,
    /// The mounts at the node's root: those of its first process, and our own.
    roots: Vec<Vec<u64>>,
    /// The main processes of kubelets' units; asked for only when needed.
    main_pids: LazyCell<Vec<u32>>,
}

impl Host<'_> {
    /// `units` asks systemd for the main processes of kubelets' units.
    pub(crate) fn new(proc: &Path, units: fn() -> Vec<u32>) -> Host<'_> {
        let roots = ["1", "self"].map(|process| root_mounts(&proc.join(process)));
        Host {
            proc,
            roots: roots.into_iter().filter(|at| !at.is_empty()).collect(),
            main_pids: LazyCell::new(units),
        }
    }

    /// The process runs on the node itself, or is the main process of a kubelet's unit.
    pub(super) fn believes(&self, pid: u32) -> bool {
        self.has(&self.proc.join(pid.to_string())) || self.main_pids.contains(&pid)
    }

    fn has(&self, process: &Path) -> bool {
        self.roots.contains(&root_mounts(process))
            && shares_our_pids(process)
            && is_program_roots(process)
    }
}

/// The mounts at / for a process. A mount belongs to a single namespace, so the same mounts mean
/// the same namespace and the same root; a process with another root has none of them. Unlike
/// /proc/PID/root and /proc/PID/ns, this can be read without capabilities, as under our unit.
fn root_mounts(process: &Path) -> Vec<u64> {
    // A process that has ended has no mounts.
    let table = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    let at_root = |line: &str| {
        let mut fields = line.split(' ');
        let number = fields.next()?.parse().ok()?;
        (fields.nth(3)? == "/").then_some(number)
    };
    table.lines().filter_map(at_root).collect()
}

/// The process has no other pid than the pid that we see. A kernel before 4.1 does not show that.
fn shares_our_pids(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    pids.is_none_or(|pids| pids.split_ascii_whitespace().count() == 1)
}

/// Only root can change the program. Without capabilities we cannot check that.
fn is_program_roots(process: &Path) -> bool {
    match fs::metadata(process.join("exe")) {
        Ok(found) => {
            let group = found.gid() != 0 && found.mode() & 0o020 != 0;
            is_trusted(found.uid()) && !group && found.mode() & 0o002 == 0
        }
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}
