//! At the start the registrar removes what its earlier run left; foreign files stay.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bed::scene::{KEEP, NAME, SOON, exists, for_each};
use bed::{Behaviour, Layout, Mounts, Node, Release, eventually, identity};
use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use crate::setup;

/// A socket on which no process listens.
fn dead_socket(path: PathBuf) -> PathBuf {
    bed::dead_socket(&path);
    path
}

fn link(target: impl AsRef<Path>, path: PathBuf) -> PathBuf {
    symlink(target, &path).unwrap();
    path
}

fn file(path: PathBuf) -> PathBuf {
    fs::write(&path, "not ours").unwrap();
    path
}

fn target(node: &Node, name: &str) -> PathBuf {
    match node.layout() {
        Layout::TwoDirectories => node.reg_socket(name),
        Layout::OneDirectory => format!(".{name}-reg.sock").into(),
    }
}

/// By its time, the file is older than the boot.
fn old(path: PathBuf) -> PathBuf {
    let then = TimeSpec::new(0, 0);
    let nowhere = UtimensatFlags::NoFollowSymlink;
    utimensat(AT_FDCWD, &path, &then, &then, nowhere).unwrap();
    path
}

/// Created at the very beginning of this boot. If the clock was set forward since, that time is before
/// the boot.
fn since_boot(path: PathBuf) -> PathBuf {
    let boot = fs::metadata("/dev/null").unwrap().modified().unwrap();
    let boot = boot.duration_since(std::time::UNIX_EPOCH).unwrap();
    let then = TimeSpec::from_duration(boot + Duration::from_secs(1));
    let nowhere = UtimensatFlags::NoFollowSymlink;
    utimensat(AT_FDCWD, &path, &then, &then, nowhere).unwrap();
    path
}

/// Files of drivers that left the configuration before the boot, of a configured driver, and of a run
/// that was killed while it worked.
fn ours(node: &Node) -> Vec<PathBuf> {
    let (registry, theirs) = (node.registry_dir(), node.plugins_registry());
    vec![
        old(link(target(node, "gone"), node.link("gone"))),
        old(dead_socket(node.reg_socket("removed"))),
        old(link(target(node, "removed"), node.link("removed"))),
        old(link(target(node, "gone"), theirs.join("gone_3-reg.sock"))),
        link(
            target(node, NAME),
            theirs.join(format!("{NAME}_2-reg.sock")),
        ),
        dead_socket(registry.join(".nr0123abc")),
        link(target(node, NAME), node.kubelet_root().join(".nr00000ff")),
        link(target(node, "gone"), theirs.join(".nr89abcde")),
    ]
}

fn foreign(node: &Node) -> Vec<PathBuf> {
    let (registry, theirs) = (node.registry_dir(), node.plugins_registry());
    vec![
        link("/nowhere/x-reg.sock", theirs.join("x-reg.sock")),
        link(registry.join("sub/y-reg.sock"), theirs.join("y-reg.sock")),
        link(registry.join("y.sock"), theirs.join("y.sock")),
        dead_socket(theirs.join("stale.sock")),
        dead_socket(registry.join("dead.sock")),
        file(registry.join("file-reg.sock")),
        file(registry.join(".nr7654321")),
        file(node.kubelet_root().join(".nr7654321")),
        link("/nowhere", node.kubelet_root().join(".nr1111111")),
        dead_socket(registry.join(".nr12")),
        dead_socket(registry.join(".nr-abcdef")),
        // Another instance with the same directories that is down for a moment.
        dead_socket(node.reg_socket("neighbour")),
        link(target(node, "neighbour"), node.link("neighbour")),
        since_boot(dead_socket(node.reg_socket("early-neighbour"))),
        since_boot(link(
            target(node, "early-neighbour"),
            node.link("early-neighbour"),
        )),
        // It reused its link from before the boot, and has served it since.
        dead_socket(node.reg_socket("old-neighbour")),
        old(link(
            target(node, "old-neighbour"),
            node.link("old-neighbour"),
        )),
    ]
}

#[test]
fn leftovers_are_removed_and_foreign_files_stay() {
    for_each(&Layout::ALL, |layout| {
        let mut scene = setup().layout(*layout).kubelet(Release::V1_36).set();
        let node = &scene.node;
        fs::create_dir_all(node.registry_dir()).unwrap();
        let ours = ours(node);
        let foreign = foreign(node);
        let living = node.reg_socket("living");
        let _listener = UnixListener::bind(&living).unwrap();
        let before: Vec<_> = foreign.iter().map(|path| identity(path)).collect();
        scene.registrar.start();
        eventually("the leftovers go", SOON, || {
            let left: Vec<_> = ours.iter().filter(|path| exists(path)).collect();
            if left.is_empty() {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        });
        scene.wait_registered();
        assert!(scene.registrar.stop().success());
        let after: Vec<_> = foreign.iter().map(|path| identity(path)).collect();
        assert_eq!(after, before, "{foreign:?}");
        assert!(exists(&living), "a process listens on it");
    });
}

/// The configuration does not have the name, and the state file is lost: until the driver answers, the
/// links could belong to another instance.
#[test]
fn a_second_link_is_removed_before_the_socket_behind_both_listens() {
    for_each(&Layout::ALL, |layout| {
        let mut scene = setup().layout(*layout).kubelet(Release::V1_36).set();
        fs::create_dir_all(scene.node.registry_dir()).unwrap();
        let name = "learned.test";
        let second = scene.node.plugins_registry();
        let second = second.join(format!("{name}_2-reg.sock"));
        let second = link(target(&scene.node, name), second);
        scene.driver.restart(Behaviour::named(name));
        let mark = scene.kubelet.mark();
        scene.registrar.start();
        scene.kubelet.wait_registered(name, SOON);
        scene.wait_phase("registered");
        assert!(!exists(&second));
        let counts = scene.settled(mark);
        assert_eq!((counts.registrations, counts.rejections), (1, 0));
    });
}

#[test]
fn a_driver_taken_out_of_the_configuration_leaves_nothing() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    scene.registrar.stop();
    scene.node.write_default_config(&[], KEEP);
    scene.registrar.start();
    scene.kubelet.wait_deregistered(NAME, SOON);
    let (link, socket) = (scene.link(), scene.node.reg_socket(NAME));
    eventually("both are gone", SOON, || !exists(&link) && !exists(&socket));
}

/// The registrar cannot remove its old socket at the start, and removes it later.
#[test]
fn a_file_that_cannot_be_removed_at_the_start_is_removed_later() {
    std::thread::scope(|scope| scope.spawn(read_only_at_the_start).join().unwrap());
}

fn read_only_at_the_start() {
    let Some(mut mounts) = Mounts::private() else {
        bed::skipped("root, to make a file system read-only");
        return;
    };
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).set();
    let registry = scene.node.registry_dir();
    fs::create_dir_all(&registry).unwrap();
    mounts.tmpfs(&registry, 100, 1 << 20);
    let left = old(dead_socket(scene.node.reg_socket("gone")));
    mounts.read_only(&registry, true).unwrap();
    scene.registrar.start();
    eventually("it is tried", SOON, || {
        let logs = scene.registrar.logs();
        logs.contains("cannot remove a socket of ours")
            .then_some(())
            .ok_or(logs)
    });
    mounts.read_only(&registry, false).unwrap();
    eventually("it goes", SOON, || !exists(&left));
    scene.wait_registered();
}
