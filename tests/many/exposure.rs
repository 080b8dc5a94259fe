//! Plugin directories that others than root may write to.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};

use bed::{Layout, stays};
use nix::unistd::geteuid;

use crate::scene::{A_WHILE, NAME, OTHER, SOON, Scene, is_nothing};

#[test]
fn a_directory_that_others_may_write_to_is_refused_until_that_is_mended() {
    let scene = Scene::new(Layout::TwoDirectories, &format!("[drivers.{OTHER:?}]\n"));
    let driver = scene.node.driver(NAME);
    let named = scene.node.driver(OTHER);
    let directory = scene.directory(NAME);
    for id in [NAME, OTHER] {
        fs::set_permissions(scene.directory(id), Permissions::from_mode(0o777)).unwrap();
    }
    let mut scene = scene;
    scene.registrar.start();
    let words = "refused: others than root may write to";
    let status = scene.reason(NAME, "waiting-for-driver", words);
    assert!(status.reason.unwrap().contains("mode 0777"));
    assert!(status.last_error.unwrap().contains(words));
    assert_eq!(driver.calls().len(), 0, "it was asked");
    // One that a table names is the operator's own choice.
    scene.phase(OTHER, "waiting-for-kubelet");
    for mode in [0o775, 0o757, 0o1777] {
        fs::set_permissions(&directory, Permissions::from_mode(mode)).unwrap();
        scene.reason(NAME, "waiting-for-driver", &format!("mode {mode:04o}"));
    }
    fs::set_permissions(&directory, Permissions::from_mode(0o755)).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
    // And while it is served.
    fs::set_permissions(&directory, Permissions::from_mode(0o777)).unwrap();
    scene.reason(NAME, "waiting-for-driver", words);
    assert!(is_nothing(&scene.node.link(NAME)));
    drop(named);
}

#[test]
fn a_directory_of_another_user_is_refused() {
    if !geteuid().is_root() {
        bed::skipped("root, to give a directory away");
        return;
    }
    let scene = Scene::started(Layout::TwoDirectories, "");
    fs::create_dir(scene.directory(NAME)).unwrap();
    chown(scene.directory(NAME), Some(12345), None).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.reason(NAME, "waiting-for-driver", "belongs to uid 12345");
    chown(scene.directory(NAME), Some(0), None).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
}

#[test]
fn a_registration_is_kept_while_its_directory_is_refused() {
    let scene = Scene::started(Layout::TwoDirectories, "");
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let mark = kubelet.mark();
    fs::set_permissions(scene.directory(NAME), Permissions::from_mode(0o777)).unwrap();
    scene.reason(NAME, "registered", "refused: others than root");
    stays("the kubelet hears nothing", A_WHILE, || {
        kubelet.counts_since(mark) == bed::kubelet::Counts::default()
    });
}

#[test]
fn a_sticky_directory_above_passes() {
    // The node itself lives in /tmp.
    let scene = Scene::started(Layout::TwoDirectories, "");
    let sticky = Permissions::from_mode(0o1777);
    fs::set_permissions(scene.node.plugins_dir(), sticky).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
}
