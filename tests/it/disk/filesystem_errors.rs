//! A file system that refuses changes for a while: the registrar makes them as soon as it can.

use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

use bed::scene::{KEEP, NAME, SOON, exists};
use bed::{Behaviour, KubeletScene, Mounts, Node, Release, eventually, stays};

use crate::setup;

const RENAMED: &str = "renamed.csi.paas.cucloud";

/// A private mount namespace for this test. None without root; `tests/run` has root.
fn mounts() -> Option<Mounts> {
    let mounts = Mounts::private();
    if mounts.is_none() {
        bed::skipped("root");
    }
    mounts
}

/// One registered driver, and a kubelet's directory that became read-only afterwards.
fn locked(mounts: &mut Mounts) -> KubeletScene {
    let node = Node::new();
    fs::create_dir(node.kubelet_root()).unwrap();
    mounts.tmpfs(&node.kubelet_root(), 1000, 1 << 20);
    let setup = setup().on(node).more(KEEP);
    let scene = setup.kubelet(Release::V1_36).registered();
    mounts.read_only(&scene.node.kubelet_root(), true).unwrap();
    scene
}

#[test]
fn a_link_that_cannot_be_removed_is_removed_as_soon_as_possible() {
    let Some(mut mounts) = mounts() else { return };
    let mut scene = locked(&mut mounts);
    scene.driver.restart(Behaviour::named(RENAMED));
    scene.wait_driver("renamed", |driver| driver.name.as_deref() == Some(RENAMED));
    assert!(exists(&scene.link()), "the file system is read-only");
    mounts.read_only(&scene.node.kubelet_root(), false).unwrap();
    let link = scene.link();
    eventually("the old link goes", SOON, || !exists(&link));
    scene.kubelet.wait_deregistered(NAME, SOON);
    scene.kubelet.wait_registered(RENAMED, SOON);
    drop(scene.registrar);
    drop(scene.kubelet);
    drop(mounts);
}

/// The registrar was killed, and starts with a directory in which it can neither bind nor remove.
#[test]
fn a_dead_socket_is_removed_with_its_name() {
    let Some(mut mounts) = mounts() else { return };
    let mut scene = locked(&mut mounts);
    let registry = scene.node.registry_dir();
    mounts.tmpfs(&registry, 1000, 1 << 20);
    let dead = scene.node.reg_socket(NAME);
    scene.registrar.kill9();
    bed::dead_socket(&dead);
    mounts.read_only(&registry, true).unwrap();
    scene.registrar.start();
    scene.wait_phase("registered");
    scene.driver.restart(Behaviour::named(RENAMED));
    scene.wait_driver("renamed", |driver| driver.name.as_deref() == Some(RENAMED));
    for directory in [registry, scene.node.kubelet_root()] {
        mounts.read_only(&directory, false).unwrap();
    }
    scene.kubelet.wait_registered(RENAMED, SOON);
    eventually("the dead socket goes", SOON, || !exists(&dead));
    drop(scene.registrar);
    drop(scene.kubelet);
    drop(mounts);
}

#[test]
fn a_file_that_cannot_be_removed_is_reported_once_and_not_at_each_retry() {
    let Some(mut mounts) = mounts() else { return };
    let scene = locked(&mut mounts);
    scene.registrar.succeed(&["withdraw", NAME]);
    scene.wait_phase("withdrawn");
    let told = |words: &str| scene.registrar.logs().matches(words).count();
    // The registrar retries each second.
    stays("told once", Duration::from_secs(4), || {
        told("cannot remove a file of ours") == 1
    });
    mounts.read_only(&scene.node.kubelet_root(), false).unwrap();
    let link = scene.link();
    eventually("the link goes", SOON, || !exists(&link));
    stays("removed once", Duration::from_secs(2), || {
        told("removed a leftover file") <= 1
    });
    drop(scene.registrar);
    drop(scene.kubelet);
    drop(mounts);
}

#[test]
fn a_driver_that_takes_its_name_up_again_keeps_the_link_that_could_not_be_removed() {
    let Some(mut mounts) = mounts() else { return };
    let mut scene = locked(&mut mounts);
    for name in [RENAMED, NAME] {
        scene.driver.restart(Behaviour::named(name));
        scene.wait_driver("renamed", |driver| driver.name.as_deref() == Some(name));
    }
    mounts.read_only(&scene.node.kubelet_root(), false).unwrap();
    scene.wait_registered();
    scene.settled(scene.kubelet.mark());
    scene.wait_registered();
    assert!(exists(&scene.link()));
    drop(scene.registrar);
    drop(scene.kubelet);
    drop(mounts);
}

#[test]
fn a_state_that_could_not_be_written_is_written_as_soon_as_there_is_room() {
    let Some(mut mounts) = mounts() else { return };
    let node = Node::new();
    mounts.tmpfs(&node.runtime_dir(), 1000, 64 << 10);
    let setup = setup().on(node).more(KEEP);
    let mut scene = setup.kubelet(Release::V1_36).registered();
    let filler = scene.node.runtime_dir().join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
    drop(file);

    let other = Behaviour::named(NAME).on_node("node-2");
    let mark = scene.kubelet.mark();
    scene.driver.restart(other);
    scene.ends_registered(mark, 1, 1);
    assert!(scene.registrar.logs().contains("cannot write the state"));
    fs::remove_file(&filler).unwrap();
    let state = scene.node.runtime_dir().join("state.json");
    eventually("the state is written", SOON, || {
        fs::read_to_string(&state).is_ok_and(|state| state.contains("node-2"))
    });

    let mark = scene.kubelet.mark();
    scene.registrar.kill9();
    scene.registrar.start();
    scene.ends_registered(mark, 0, 0);
    drop(scene.registrar);
    drop(mounts);
}

#[test]
fn a_socket_given_up_while_hidden_is_removed_when_it_shows_again() {
    let Some(mut mounts) = mounts() else { return };
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    let (registry, old) = (scene.node.registry_dir(), scene.node.reg_socket(NAME));
    mounts.tmpfs(&registry, 100, 1 << 20);
    eventually("the socket is back", SOON, || exists(&old));
    scene.driver.restart(Behaviour::named(RENAMED));
    let new = scene.node.reg_socket(RENAMED);
    eventually("the new name is served", SOON, || exists(&new));
    mounts.unmount(&registry);
    eventually("it is served in the old directory", SOON, || exists(&new));
    eventually("what was hidden is gone", SOON, || !exists(&old));
    drop(scene);
    drop(mounts);
}
