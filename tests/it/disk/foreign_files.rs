//! Foreign files at the link's path, under a kubelet: the registrar waits for a live owner, and never
//! deletes a foreign file.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use bed::scene::{NAME, SOON, exists, for_each, reason};
use bed::{KubeletProcess, Node, Registrar, Release, eventually, identity, stays};
use nix::sys::signal::Signal;

use crate::disk::ndr_process::StandIn;
use crate::{PROGRAM, setup};

/// The registrar takes a free path at once: its timer, which would find it too, has half a minute.
const AT_ONCE: Duration = Duration::from_secs(10);

#[test]
fn waits_for_a_running_ndr_and_publishes_when_it_ends() {
    for_each(&[true, false], |graceful| {
        let mut scene = setup().kubelet(Release::V1_36).set();
        let stand_in = StandIn::start(&scene.link());
        let theirs = identity(&scene.link());
        scene.registrar.start();
        let driver = scene.wait_phase("conflict");
        let pid = format!("pid {}", stand_in.pid());
        assert!(reason(&driver).contains(&pid), "{}", reason(&driver));
        stays(
            "the foreign socket is left alone",
            Duration::from_secs(1),
            || identity(&scene.link()) == theirs,
        );
        let start = Instant::now();
        if *graceful {
            stand_in.stop();
        } else {
            stand_in.kill();
        }
        let link = scene.link();
        eventually("our link is there", SOON, || link.is_symlink());
        assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
        scene.wait_registered();
    });
}

#[test]
fn takes_over_from_a_running_ndr_when_configured_to() {
    let config = "[defaults]\non_live_owner = \"take-over\"\n";
    let mut scene = setup().more(config).kubelet(Release::V1_36).set();
    let _stand_in = StandIn::start(&scene.link());
    scene.registrar.start();
    let link = scene.link();
    eventually("our link is there", SOON, || link.is_symlink());
    scene.wait_registered();
}

/// Another registrar serves the driver from the kubelet's own directory, through its own live link, and
/// has it registered. It is killed, and leaves socket and link behind.
#[test]
fn waits_for_a_live_foreign_link_and_replaces_it_when_it_dangles() {
    let node = Node::new();
    let theirs = Node::with_layout(bed::Layout::OneDirectory);
    let kubelet = KubeletProcess::start(node.kubelet_settings(Release::V1_36));
    let driver = node.driver(NAME);
    let config = node.default_config(&[NAME]).replace(
        &format!("\nregistry_dir = {:?}", node.registry_dir()),
        &format!("\nregistry_dir = {:?}", node.plugins_registry()),
    );
    theirs.write_config(&config);
    let mut other = Registrar::new(PROGRAM, &theirs);
    other.start();
    kubelet.wait_registered(NAME, SOON);

    node.write_default_config(&[NAME], "");
    let mut registrar = Registrar::new(PROGRAM, &node);
    registrar.start();
    registrar.wait_phase(NAME, "conflict", SOON);
    let mark = kubelet.mark();
    let foreign = fs::read_link(node.link(NAME)).unwrap();
    other.kill9();
    eventually("the link is ours", SOON, || {
        fs::read_link(node.link(NAME)).is_ok_and(|target| target != foreign)
    });
    registrar.wait_phase(NAME, "registered", SOON);
    let counts = kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    drop((driver, other));
}

#[test]
fn a_foreign_link_created_during_the_stop_stays() {
    let mut scene = setup().kubelet(Release::V1_36).registered();
    let foreign = scene.node.root().join("foreign.sock");
    let _listener = UnixListener::bind(&foreign).unwrap();
    // The registrar finds the SIGTERM and the foreign link in the same turn of its loop.
    scene.registrar.signal(Signal::SIGSTOP);
    fs::remove_file(scene.link()).unwrap();
    symlink(&foreign, scene.link()).unwrap();
    let theirs = identity(&scene.link());
    scene.registrar.signal(Signal::SIGTERM);
    scene.registrar.signal(Signal::SIGCONT);
    assert!(scene.registrar.wait_exit(SOON).success());
    assert_eq!(identity(&scene.link()), theirs);
    assert!(!exists(&scene.node.reg_socket(NAME)), "ours goes");
}

#[test]
fn what_is_neither_socket_nor_link_is_never_deleted() {
    let mut scene = setup().kubelet(Release::V1_36).set();
    fs::write(scene.link(), "mine").unwrap();
    scene.registrar.start();
    let driver = scene.wait_phase("conflict");
    assert!(reason(&driver).contains("a regular file"));
    assert_eq!(fs::read_to_string(scene.link()).unwrap(), "mine");
    fs::remove_file(scene.link()).unwrap();
    scene.wait_registered();
}

#[test]
fn a_stop_withdraws_and_leaves_nothing_of_ours() {
    let mut scene = setup().kubelet(Release::V1_36).registered();
    assert!(scene.registrar.stop().success());
    scene.kubelet.wait_deregistered(NAME, SOON);
    assert!(!exists(&scene.link()) && !exists(&scene.node.reg_socket(NAME)));
}

#[test]
fn a_link_that_a_rival_keeps_removing_comes_back_more_slowly_and_is_registered_in_the_end() {
    let mut scene = setup().kubelet(Release::V1_36).registered();
    let link = scene.link();
    for repairs in 0..4 {
        scene.wait_driver("put back", |driver| driver.link_repairs == repairs);
        fs::remove_file(&link).unwrap();
    }
    let start = Instant::now();
    let driver = scene.wait_phase("conflict");
    assert!(reason(&driver).contains("4 times"), "{}", reason(&driver));
    eventually("the link is back", SOON, || exists(&link));
    assert!(start.elapsed() > Duration::from_millis(800));
    scene.wait_registered();
    scene.registrar.stop();
}
