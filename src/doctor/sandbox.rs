//! Whether the daemon's sandbox lets it see and write the directories that it is to use.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

use super::{Finding, Inputs};
use crate::disk::runtime_dir::last_holder;
use crate::systemd::sandbox::kept_by_the_unit;

const MEND: &str =
    "use another directory, or loosen the unit with: systemctl edit node-storage-driver-registrar";

pub(super) fn check(patient: &Inputs) -> Vec<Finding> {
    let Some(pid) = last_holder(&patient.runtime).filter(|_| patient.daemon.is_ok()) else {
        let kept = kept_by_the_unit(&patient.settings).into_iter();
        return kept
            .map(|complaint| Finding::warning("sandbox", complaint, MEND))
            .collect();
    };
    let root = patient.proc.join(pid.to_string()).join("root");
    let settings = &patient.settings;
    let written = [&settings.registry_dir, &settings.kubelet.registry_dir];
    let sockets = settings.drivers.values();
    let read = sockets.filter_map(|driver| driver.csi_socket.parent());
    // Nobody is to wait here for what a driver's own check says.
    let read = read.filter(|path| !patient.reach.may_hang(path));
    let mut findings = Vec::new();
    for path in written.into_iter().map(PathBuf::as_path).chain(read) {
        if is_hidden(&root, path) {
            let saw = format!(
                "{} is not the same directory for the daemon (pid {pid}) as for everybody else",
                path.display()
            );
            findings.push(Finding::fault("sandbox", saw, MEND));
        }
    }
    for path in written {
        if is_locked(&root, path) {
            let saw = format!("{} is read-only for the daemon (pid {pid})", path.display());
            findings.push(Finding::fault("sandbox", saw, MEND));
        }
    }
    findings
}

/// We see a directory, and a process with this root sees none or another one.
fn is_hidden(root: &Path, path: &Path) -> bool {
    // A root that cannot be entered says nothing: we are not root, or the daemon has ended.
    let (Ok(ours), Ok(_)) = (fs::metadata(path), fs::metadata(root)) else {
        return false;
    };
    match fs::metadata(inside(root, path)) {
        Ok(theirs) => (ours.dev(), ours.ino()) != (theirs.dev(), theirs.ino()),
        Err(_) => true,
    }
}

/// We could write to a directory, and a process with this root cannot: a mount of its own is in the
/// way.
fn is_locked(root: &Path, path: &Path) -> bool {
    let read_only =
        |path: &Path| statvfs(path).map(|found| found.flags().contains(FsFlags::ST_RDONLY));
    read_only(path) == Ok(false) && read_only(&inside(root, path)) == Ok(true)
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
