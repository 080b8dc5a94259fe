//! Nodes on which the kubelet is the cause.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use bed::scene::{NAME, SOON};
use bed::{KubeletProcess, Release, Scene, Settings, Timing};

use super::{doctor, finds, first_is, fixed_by, proc};
use crate::setup;

/// Adds a kubelet to that proc file system, with this root directory and this root file system.
fn kubelet_process(scene: &Scene, root_dir: &Path, root: &Path) {
    let process = proc(scene).join("4711");
    fs::create_dir(&process).unwrap();
    let line = format!(
        "/usr/bin/kubelet\0--root-dir={}\0--v=2\0",
        root_dir.display()
    );
    fs::write(process.join("cmdline"), line).unwrap();
    fs::write(process.join("status"), "Uid:\t0\t0\t0\t0\n").unwrap();
    // A process with the mounts of pid 1 is the node's own.
    let first = proc(scene).join("1");
    fs::create_dir(&first).unwrap();
    for process in [&process, &first] {
        let mounts = "27 1 8:1 / / rw - ext4 /dev/sda1 rw\n";
        fs::write(process.join("mountinfo"), mounts).unwrap();
        symlink("/bin/sh", process.join("exe")).unwrap();
    }
    symlink(root, process.join("root")).unwrap();
}

/// Moves the kubelet's directory away in one step: while a removal emptied it, the daemon would put the
/// link back.
fn take_away(scene: &Scene) {
    let names = (0..).map(|number| scene.node.root().join(format!("old-{number}")));
    let elsewhere = names.into_iter().find(|path| !path.exists()).unwrap();
    fs::rename(scene.node.plugins_registry(), elsewhere).unwrap();
}

#[test]
fn a_kubelet_that_does_not_run() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    finds(&scene, "kubelet running", "no kubelet runs");
}

#[test]
fn a_kubelet_directory_that_is_missing() {
    let mut scene = setup().set();
    fs::remove_dir(scene.node.plugins_registry()).unwrap();
    finds(&scene, "kubelet running", "plugins_registry is missing");
    kubelet_process(&scene, &scene.node.kubelet_root(), Path::new("/"));
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    finds(&scene, "kubelet directory", "plugins_registry is missing");
}

#[test]
fn a_kubelet_with_its_root_directory_elsewhere() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    kubelet_process(&scene, Path::new("/var/lib/k0s/kubelet"), Path::new("/"));
    finds(
        &scene,
        "kubelet root-dir",
        "root directory is /var/lib/k0s/kubelet",
    );
    take_away(&scene);
    finds(
        &scene,
        "kubelet root-dir",
        "root directory is /var/lib/k0s/kubelet",
    );
}

#[test]
fn a_kubelet_in_a_container_that_does_not_see_our_sockets() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let container = scene.node.root().join("container");
    fs::create_dir(&container).unwrap();
    kubelet_process(&scene, &scene.node.kubelet_root(), &container);
    finds(
        &scene,
        "kubelet's view of reg.sock",
        "has its own root file system",
    );
    let inside = |path: PathBuf| container.join(path.strip_prefix("/").unwrap());
    let reg_socket = inside(scene.node.reg_socket(NAME));
    fs::create_dir_all(reg_socket.parent().unwrap()).unwrap();
    fs::write(reg_socket, "").unwrap();
    finds(&scene, "kubelet's view of csi.sock", "csi.sock");
}

#[test]
fn a_kubelet_that_does_not_look() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    kubelet_process(&scene, &scene.node.kubelet_root(), Path::new("/"));
    finds(
        &scene,
        "kubelet registering",
        "has not registered the driver",
    );
}

#[test]
fn a_kubelet_that_says_no() {
    let scene = setup().started();
    let kubelet = scene.node.kubelet();
    kubelet.fault(|faults| faults.refuse = Some("the version is bad".to_owned()));
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "rejected");
    finds(&scene, "kubelet rejecting", "the version is bad");
}

#[test]
fn a_refusal_has_the_matching_fix() {
    for (words, fix) in [
        ("detected topology value collision: zone", "reannounce"),
        (
            "Another driver with the same name is already registered",
            "other socket or link",
        ),
    ] {
        let scene = setup().started();
        let kubelet = scene.node.kubelet();
        kubelet.fault(|faults| faults.refuse = Some(words.to_owned()));
        let _driver = scene.node.driver(NAME);
        scene.phase(NAME, "rejected");
        let output = doctor(&scene);
        first_is(&output, "kubelet rejecting", words);
        fixed_by(&output, fix);
    }
}

#[test]
fn a_plugins_registry_recreated_under_a_running_kubelet() {
    let scene = setup().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    take_away(&scene);
    scene.node.make_plugins_registry();
    waits_for_a_restart(&scene);
    finds(&scene, "kubelet directory", "was deleted");
}

/// The registrar knows that only a restart of the kubelet helps.
#[track_caller]
fn waits_for_a_restart(scene: &Scene) {
    let words = "restart the kubelet";
    scene
        .registrar
        .wait_reason(NAME, "waiting-for-kubelet", words, SOON);
}

#[test]
fn a_recreated_plugins_registry_is_remembered_across_a_restart_of_the_registrar() {
    let mut scene = setup().more("[service]\non_stop = \"keep\"\n").started();
    let settings = Settings::new(scene.node.kubelet_root(), Release::V1_36);
    let mut kubelet = KubeletProcess::start(settings.with_timing(Timing::faster(10)));
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    // While the registrar runs, and then while it is down.
    for down in [false, true] {
        if down {
            scene.registrar.stop();
        }
        take_away(&scene);
        scene.node.make_plugins_registry();
        if down {
            scene.registrar.start();
        } else {
            waits_for_a_restart(&scene);
        }
        scene.registrar.restart();
        waits_for_a_restart(&scene);
        finds(&scene, "kubelet directory", "was deleted");
        kubelet.restart();
        scene.phase(NAME, "registered");
        // A problem that is solved does not come back.
        scene.registrar.restart();
        scene.phase(NAME, "registered");
    }
}
