//! A directory that the registrar may not read, as under the shipped unit: root without capabilities.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Behaviour, FakeDriver, KubeletScene, Registrar, eventually, is_root};

use crate::PROGRAM;
use crate::lifecycle::runtime_dir::{FEW, quiet, wakeups};

/// Another user.
const USER: u32 = 12345;
const WITHOUT_CAPABILITIES: &str = "exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";

/// A registered driver, and the directory of a second driver that belongs to another user with mode
/// 0700. The registrar has no capability.
fn started(config: &str) -> Option<(KubeletScene, FakeDriver, PathBuf)> {
    if !is_root("run it without capabilities") {
        return None;
    }
    let mut scene = quiet();
    scene.node.write_default_config(&[NAME], config);
    scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, WITHOUT_CAPABILITIES);
    let other = scene.node.csi_socket(OTHER);
    let driver = FakeDriver::start_in_new_directory(&other, Behaviour::named(OTHER));
    let directory = other.parent().unwrap().to_owned();
    chown(&directory, Some(USER), None).unwrap();
    mode(&directory, 0o700);
    Some((scene.registered(), driver, directory))
}

fn mode(directory: &PathBuf, mode: u32) {
    fs::set_permissions(directory, Permissions::from_mode(mode)).unwrap();
}

/// The log names the directory once, does not blame the limit of watches, and nothing polls.
#[track_caller]
fn is_told_once_and_not_polled(scene: &KubeletScene, directory: &PathBuf) {
    let words = format!(
        "may not read {} (uid {USER}, mode 0700)",
        directory.display()
    );
    let told = || {
        let logs = scene.registrar.logs();
        logs.lines().filter(|line| line.contains(&words)).count()
    };
    eventually("the log names the directory", SOON, || told() == 1);
    let woken = wakeups(&scene.registrar);
    assert!(woken < FEW, "{woken} wake-ups");
    let status = scene.registrar.run_cli(["status"]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(!status.contains("every second"), "{status}");
    let note = status.replace("\n", " ");
    assert!(note.contains("note: may not read"), "{status}");
    // A second look logs nothing new.
    mode(directory, 0o600);
    mode(directory, 0o700);
    scene.registrar.succeed(&["reload"]);
    let logs = scene.registrar.logs();
    assert_eq!(told(), 1, "{logs}");
    assert!(!logs.contains("max_user_watches"), "{logs}");
}

#[test]
fn an_unreadable_plugin_directory_is_reported_once_and_costs_no_wakeups() {
    let Some((scene, _driver, directory)) = started("[discovery]\nenabled = true\n") else {
        return;
    };
    is_told_once_and_not_polled(&scene, &directory);
    // The watch on its parent reports the change. A directory that only root may write to is
    // acceptable.
    chown(&directory, Some(0), None).unwrap();
    scene.kubelet.wait_registered(OTHER, SOON);
    assert!(!scene.registrar.logs().contains("max_user_watches"));
}

#[test]
fn a_configured_driver_in_an_unreadable_directory_says_so_and_costs_no_wakeups() {
    let Some((scene, _driver, directory)) = started(&format!("[drivers.{OTHER:?}]\n")) else {
        return;
    };
    let words = format!(
        "no permission to search {} (uid {USER}, mode 0700)",
        directory.display()
    );
    scene.registrar.wait_driver(&words, OTHER, SOON, |driver| {
        driver.phase == "waiting-for-driver" && driver.reason.as_deref().unwrap().contains(&words)
    });
    is_told_once_and_not_polled(&scene, &directory);
    mode(&directory, 0o755);
    scene.kubelet.wait_registered(OTHER, SOON);
}
