//! The registrar puts back what another process removes or changes.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use bed::scene::{A_WHILE, NAME, SOON, in_both_layouts, is_alive, is_nothing, nothing_since};
use bed::{eventually, never};

use crate::setup;

#[test]
fn a_link_that_is_removed_comes_back_and_is_registered_again() {
    in_both_layouts(|layout| {
        let (scene, _driver, kubelet) = setup().layout(layout).registered();
        fs::remove_file(scene.node.link(NAME)).unwrap();
        scene.wait_published(NAME);
        let repaired =
            |status: &bed::DriverStatus| status.registrations == 2 && status.phase == "registered";
        let status = scene
            .registrar
            .wait_driver("registered again", NAME, SOON, repaired);
        assert_eq!(status.link_repairs, 1);
        assert!(kubelet.registered().contains_key(NAME));
    });
}

#[test]
fn a_link_that_is_changed_to_lead_elsewhere_is_put_right() {
    in_both_layouts(|layout| {
        let (scene, _driver) = setup().layout(layout).published();
        let staged = scene.node.root().join("staged");
        symlink("/nowhere", &staged).unwrap();
        fs::rename(&staged, scene.node.link(NAME)).unwrap();
        scene.wait_published(NAME);
    });
}

#[test]
fn an_equal_link_of_another_process_is_kept_and_registered_again() {
    let (scene, _driver, _kubelet) = setup().registered();
    let staged = scene.node.root().join("staged");
    symlink(scene.target(NAME), &staged).unwrap();
    fs::rename(&staged, scene.node.link(NAME)).unwrap();
    let again = |status: &bed::DriverStatus| status.registrations >= 2;
    scene
        .registrar
        .wait_driver("registered again", NAME, SOON, again);
    scene.phase(NAME, "registered");
}

#[test]
fn a_link_that_is_touched_ends_registered() {
    let (scene, _driver, kubelet) = setup().registered();
    let link = scene.node.link(NAME);
    assert!(
        Command::new("touch")
            .arg("-h")
            .arg(&link)
            .status()
            .unwrap()
            .success()
    );
    scene.wait_published(NAME);
    scene.phase(NAME, "registered");
    kubelet.wait_registered(NAME, SOON);
}

#[test]
fn a_removed_or_changed_socket_is_recreated_and_the_kubelet_sees_nothing() {
    in_both_layouts(|layout| {
        let (scene, _driver, kubelet) = setup().layout(layout).registered();
        let socket = scene.node.reg_socket(NAME);
        let mark = kubelet.mark();
        fs::remove_file(&socket).unwrap();
        scene.wait_published(NAME);
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o666)).unwrap();
        eventually("mode 0600 again", SOON, || {
            let mode = fs::metadata(&socket).map_err(|error| error.to_string())?;
            let mode = mode.permissions().mode() & 0o777;
            (mode == 0o600).then_some(()).ok_or(format!("{mode:o}"))
        });
        scene.wait_published(NAME);
        scene.phase(NAME, "registered");
        nothing_since(&kubelet, mark);
    });
}

#[test]
fn registry_dir_is_created_when_it_is_missing_and_when_it_is_deleted() {
    let (scene, driver) = setup().published();
    let directory = scene.node.registry_dir();
    let aside = scene.node.root().join("aside");
    for _ in 0..2 {
        fs::rename(&directory, &aside).unwrap();
        fs::remove_dir_all(&aside).unwrap();
        scene.wait_published(NAME);
    }
    let mode = fs::metadata(&directory).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    // Its parents too.
    fs::rename(scene.node.root().join("vdata"), &aside).unwrap();
    let (place, gone) = (scene.node.reg_socket(NAME), driver.path().to_owned());
    eventually("the socket is back", SOON, || is_alive(&place));
    assert!(is_nothing(&gone));
}

#[test]
fn the_kubelets_directory_is_waited_for_and_never_made() {
    in_both_layouts(|layout| {
        let mut scene = setup().layout(layout).set();
        let root = scene.node.kubelet_root();
        fs::remove_dir_all(&root).unwrap();
        let _driver = scene.node.driver(NAME);
        scene.registrar.start();
        let registry = scene.node.plugins_registry();
        let words = format!("{} is missing", registry.display());
        scene.reason(NAME, "waiting-for-kubelet", &words);
        never("it is made", A_WHILE, || !is_nothing(&root));
        fs::create_dir(&root).unwrap();
        never("it is made", A_WHILE, || !is_nothing(&registry));
        fs::create_dir(&registry).unwrap();
        scene.wait_published(NAME);
    });
}

#[test]
fn a_kubelet_that_starts_later_finds_the_link() {
    in_both_layouts(|layout| {
        let mut scene = setup().layout(layout).set();
        fs::remove_dir_all(scene.node.kubelet_root()).unwrap();
        let _driver = scene.node.driver(NAME);
        scene.registrar.start();
        scene.reason(NAME, "waiting-for-kubelet", "is missing");
        let kubelet = scene.node.kubelet();
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
    });
}

#[test]
fn a_recreated_kubelet_directory_gets_its_link_again() {
    in_both_layouts(|layout| {
        let (scene, _driver) = setup().layout(layout).published();
        // The test moves the directory: while it emptied it, the registrar would put the link back.
        let aside = scene.node.root().join("aside");
        fs::rename(scene.node.plugins_registry(), &aside).unwrap();
        scene.reason(NAME, "waiting-for-kubelet", "is missing");
        fs::create_dir(scene.node.plugins_registry()).unwrap();
        scene.wait_published(NAME);
    });
}
