//! Nodes on which a directory is the cause.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use bed::eventually;
use bed::scene::{NAME, OTHER, SOON};

use super::{doctor, findings, finds, first_is, notes, only};
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
    fs::remove_dir(scene.node.plugins_registry()).unwrap();
    fs::write(scene.node.plugins_registry(), "").unwrap();
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

#[test]
fn a_wrong_plugins_dir_is_one_fault_that_asks_for_the_mount() {
    // Without the daemon, and with its note about discovery.
    for is_running in [false, true] {
        let mut scene = setup().discovery().drivers(&[NAME, OTHER]).set();
        let plugins = scene.node.plugins_dir();
        fs::remove_dir(&plugins).unwrap();
        if is_running {
            scene.registrar.start();
            scene.reason(NAME, "waiting-for-driver", "is missing (is ");
        }
        let output = doctor(&scene);
        let parent = plugins.parent().unwrap().display();
        let words = format!("{} is missing (is {parent} mounted?)", plugins.display());
        first_is(&output, "plugins_dir", &words);
        let findings = findings(&output);
        let about = findings.iter().filter(|finding| {
            finding["found"]
                .as_str()
                .unwrap()
                .contains("is missing (is ")
        });
        assert_eq!(about.count(), 1, "{findings:#?}");
    }
}

/// Nobody has declared the driver, and a kubelet has it.
#[test]
fn a_missing_plugins_dir_of_a_discovered_driver_is_a_fault() {
    let scene = setup().discovery().started();
    let _kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    drop(driver);
    let plugins = scene.node.plugins_dir();
    fs::rename(&plugins, plugins.with_file_name("away")).unwrap();
    scene.reason(NAME, "registered", "driver not responding");
    let output = doctor(&scene);
    first_is(&output, "plugins_dir", "is missing (is ");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}

#[test]
fn a_wrong_plugins_dir_without_any_declared_driver_is_a_warning() {
    let scene = setup().discovery().started();
    fs::remove_dir(scene.node.plugins_dir()).unwrap();
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let findings = findings(&output);
    assert_eq!(only(&findings, "plugins_dir")["level"], "warning");
    assert!(
        findings
            .iter()
            .all(|finding| finding["check"] != "csi.sock"),
        "{findings:#?}"
    );
}

#[test]
fn directories_without_a_csi_sock_are_one_warning_and_other_sockets_in_them_are_named() {
    let scene = setup().discovery().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let [stopped, other] = ["stopped", "other"].map(|id| scene.node.plugins_dir().join(id));
    for directory in [&stopped, &other] {
        fs::create_dir(directory).unwrap();
    }
    let socket = other.join("nfs.sock");
    let _socket = UnixListener::bind(&socket).unwrap();
    eventually("the daemon has a note", SOON, || {
        let is_said = |note: &String| note.contains("nfs.sock") && note.contains("stopped");
        notes(&scene).iter().any(is_said)
    });
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let findings = findings(&output);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let finding = only(&findings, "csi.sock missing");
    let found = finding["found"].as_str().unwrap();
    for words in [
        stopped.to_str().unwrap(),
        other.to_str().unwrap(),
        "nfs.sock",
    ] {
        assert!(found.contains(words), "{found}");
    }
    let fix = finding["fix"].as_str().unwrap();
    let table = format!(
        "[drivers.\"other\"] with csi_socket = \"{}\"",
        socket.display()
    );
    assert!(
        fix.contains(&table) && fix.contains("discovery.exclude"),
        "{fix}"
    );
}
