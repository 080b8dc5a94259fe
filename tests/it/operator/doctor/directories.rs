//! Nodes on which a directory is the cause.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bed::eventually;
use bed::scene::{NAME, SOON};

use super::{doctor, findings, finds};
use crate::setup;

#[test]
fn a_file_in_the_place_of_our_directory() {
    let scene = setup().set();
    let registry = scene.node.registry_dir();
    fs::create_dir_all(registry.parent().unwrap()).unwrap();
    fs::write(registry, "").unwrap();
    finds(
        &scene,
        "registry_dir",
        "plugins_registry is not a directory",
    );
}

#[test]
fn a_file_in_the_place_of_the_kubelets_directory() {
    let scene = setup().set();
    fs::remove_dir(scene.node.kubelet_registry_dir()).unwrap();
    fs::write(scene.node.kubelet_registry_dir(), "").unwrap();
    finds(&scene, "kubelet directory", "is not a directory");
}

#[test]
fn a_directory_that_everybody_may_write_to_is_a_warning() {
    let scene = setup().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(scene.node.registry_dir(), open).unwrap();
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let first = &findings(&output)[0];
    assert_eq!(first["level"], "warning", "{first}");
    assert_eq!(first["check"], "owner", "{first}");
    let found = first["found"].as_str().unwrap();
    assert!(found.contains("every user may write to"), "{found}");
}

#[test]
fn a_node_without_any_driver_is_a_warning_that_says_how_to_have_one() {
    for (config, check) in [
        ("", "config"),
        ("[discovery]\nenabled = true\n", "csi.sock"),
    ] {
        let scene = setup().drivers(&[]).more(config).started();
        eventually("the daemon answers", SOON, || scene.registrar.status());
        let output = doctor(&scene);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let first = &findings(&output)[0];
        assert_eq!(first["check"], check, "{first}");
        assert!(first["found"].as_str().unwrap().contains("no drivers"));
    }
}
