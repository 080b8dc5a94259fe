//! The modes of every file that the daemon creates, whatever its umask.

use std::fs;

use bed::scene::{NAME, SOON};
use bed::{Registrar, Scene, eventually};

use crate::security::victim::mode;
use crate::{PROGRAM, setup};

/// Starts the daemon on a node where it has to create all directories itself, and waits until a driver
/// is registered.
fn with_umask(umask: &str, check: impl FnOnce(&Scene)) {
    let mut scene = setup().http().set();
    fs::remove_dir(scene.node.runtime_dir()).unwrap();
    let script = format!("umask {umask}; exec \"$@\"");
    scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, &script);
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    eventually("http is served", SOON, || scene.http().exists());
    check(&scene);
}

/// The files of the runtime directory and the registry, with the modes of docs/security.md.
#[track_caller]
fn files_are_narrow(scene: &Scene) {
    let runtime = scene.node.runtime_dir();
    for name in ["lock", "state.json", "control.sock"] {
        assert_eq!(mode(&runtime.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&scene.node.reg_socket(NAME)), 0o600);
    assert_eq!(mode(&scene.http()), 0o666);
    // No other file remains, such as one with a temporary name.
    let count = |directory| fs::read_dir(directory).unwrap().count();
    assert_eq!(count(runtime), 4);
    assert_eq!(count(scene.node.registry_dir()), 1);
    assert_eq!(count(scene.node.plugins_registry()), 1);
}

#[test]
fn an_open_umask_opens_nothing() {
    with_umask("000", |scene| {
        files_are_narrow(scene);
        assert_eq!(mode(&scene.node.runtime_dir()), 0o755);
        assert_eq!(mode(&scene.node.registry_dir()), 0o755);
    });
}

#[test]
fn the_umask_of_the_unit_closes_nothing_that_must_be_open() {
    with_umask("077", |scene| {
        files_are_narrow(scene);
        // Other users may connect to http.sock in it.
        assert_eq!(mode(&scene.node.runtime_dir()), 0o755);
        // Drivers of other users live below the same parents.
        assert_eq!(mode(&scene.node.registry_dir()), 0o755);
        let parent = scene.node.registry_dir().parent().unwrap().to_owned();
        assert_eq!(mode(&parent), 0o755);
    });
}
