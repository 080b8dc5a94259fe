//! The daemon's sandbox: it lets the daemon see and write the directories of the configuration.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::{FsFlags, statvfs};

use super::{Finding, Inputs};
use crate::disk::runtime_dir::last_holder;
use crate::systemd::sandbox::kept_by_the_unit;

const FIX: &str =
    "use another directory, or loosen the unit with: systemctl edit node-storage-driver-registrar";

pub(super) fn check(inputs: &Inputs) -> Vec<Finding> {
    let settings = &inputs.settings;
    let Some(pid) = last_holder(&inputs.runtime).filter(|_| inputs.daemon.is_ok()) else {
        let kept = kept_by_the_unit(settings).into_iter();
        return kept
            .map(|complaint| Finding::warning("sandbox", complaint, FIX))
            .collect();
    };
    let root = inputs.proc.join(pid.to_string()).join("root");
    let written =
        [&settings.registry_dir, &settings.kubelet.plugins_registry].map(PathBuf::as_path);
    let sockets = settings.drivers.values();
    let read = sockets.filter_map(|driver| driver.csi_socket.parent());
    // A file system that hangs would block the doctor here; the check of its driver reports it.
    let read = read.filter(|path| !inputs.reach.may_hang(path));
    let fault = |path: &Path, state: &str| {
        let found = format!("{} {state} for the daemon (pid {pid})", path.display());
        Finding::fault("sandbox", found, FIX)
    };
    let hidden = written
        .into_iter()
        .chain(read)
        .filter(|path| is_hidden(&root, path));
    let locked = written.into_iter().filter(|path| is_locked(&root, path));
    hidden
        .map(|path| fault(path, "is not the same directory"))
        .chain(locked.map(|path| fault(path, "is read-only")))
        .collect()
}

/// The directory exists for us, and a process with this root sees none or another directory.
fn is_hidden(root: &Path, path: &Path) -> bool {
    // A root that we cannot enter says nothing: we are not root, or the daemon has ended.
    let (Ok(ours), Ok(_)) = (fs::metadata(path), fs::metadata(root)) else {
        return false;
    };
    match fs::metadata(inside(root, path)) {
        Ok(theirs) => (ours.dev(), ours.ino()) != (theirs.dev(), theirs.ino()),
        Err(_) => true,
    }
}

/// The directory is on a writable file system for us, and on a read-only mount for a process with
/// this root.
fn is_locked(root: &Path, path: &Path) -> bool {
    let read_only =
        |path: &Path| statvfs(path).map(|found| found.flags().contains(FsFlags::ST_RDONLY));
    read_only(path) == Ok(false) && read_only(&inside(root, path)) == Ok(true)
}

/// The path as a process with this root sees it.
pub(super) fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
