//! A machine without a boot id.

use std::path::Path;

use bed::scene::{KEEP, SOON};
use bed::{Mounts, Release, eventually};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use crate::setup;

/// The boot id reads as empty in this thread and in the processes that it starts. None without root.
fn without_boot_id() -> Option<Mounts> {
    let Some(mut mounts) = Mounts::private() else {
        bed::skipped("root, to hide the boot id");
        return None;
    };
    let boot_id = Path::new("/proc/sys/kernel/random/boot_id");
    mounts.bind(Path::new("/dev/null"), boot_id);
    Some(mounts)
}

/// Two unknown boot ids do not mean the same boot.
#[test]
fn without_a_boot_id_a_state_that_may_be_older_than_the_boot_is_not_believed() {
    let Some(_mounts) = without_boot_id() else {
        return;
    };
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    if statfs(&scene.node.runtime_dir()).unwrap().filesystem_type() == TMPFS_MAGIC {
        return bed::skipped("a directory for temporary files that is on a disk");
    }
    let mark = scene.kubelet.mark();
    let told = scene.registrar.logs().len();
    scene.registrar.kill9();
    scene.registrar.start();
    eventually("registered again", SOON, || {
        scene.kubelet.counts_since(mark).registrations > 0
    });
    scene.ends_registered(mark, 1, 1);
    let logs = scene.registrar.logs();
    let warned = logs[told..].contains("it may be from another boot");
    assert!(warned, "{logs}");
}

/// No file in a tmpfs is older than the boot.
#[test]
fn without_a_boot_id_our_restart_costs_nothing_where_the_state_cannot_outlive_the_boot() {
    let Some(mut mounts) = without_boot_id() else {
        return;
    };
    let scene = setup().more(KEEP).kubelet(Release::V1_36).set();
    mounts.tmpfs(&scene.node.runtime_dir(), 100, 1 << 20);
    let mut scene = scene.registered();
    let mark = scene.kubelet.mark();
    scene.registrar.kill9();
    scene.registrar.start();
    scene.ends_registered(mark, 0, 0);
}
