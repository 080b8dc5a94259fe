//! Whether a process is one of the node's own, and none of a container's.
//!
//! Root in a container is uid 0 as well, and may call itself whatever it likes. It cannot choose its
//! mounts: a container has a mount namespace and a root of its own, also one that shares our
//! processes (hostPID).

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::os::peer::is_trusted;

/// The mounts that are the root of the node: those of its first process, and our own.
pub(super) struct Host {
    roots: Vec<Vec<u64>>,
}

impl Host {
    pub(super) fn of(proc: &Path) -> Host {
        let first = proc.join("1");
        let ours = proc.join("self");
        Host {
            roots: [first, ours]
                .iter()
                .map(|process| root_mounts(process))
                .filter(|mounts| !mounts.is_empty())
                .collect(),
        }
    }

    /// The process runs beside the node's first one, and not in a container.
    pub(super) fn has(&self, process: &Path) -> bool {
        self.roots.contains(&root_mounts(process))
            && shares_our_pids(process)
            && is_program_roots(process)
    }
}

/// The mounts at / for a process. A mount is in one namespace only, so that the same ones mean the
/// same namespace and the same root; a process with another root has none of them. Unlike
/// /proc/PID/root and /proc/PID/ns, this may be read without capabilities, as under our unit.
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

/// The process has one pid only, the one by which we see it. A kernel before 4.1 does not tell.
fn shares_our_pids(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    pids.is_none_or(|pids| pids.split_ascii_whitespace().count() == 1)
}

/// Its program is out of others' reach. Without capabilities that may not be looked at.
fn is_program_roots(process: &Path) -> bool {
    match fs::metadata(process.join("exe")) {
        Ok(found) => {
            let group = found.gid() != 0 && found.mode() & 0o020 != 0;
            is_trusted(found.uid()) && !group && found.mode() & 0o002 == 0
        }
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}
