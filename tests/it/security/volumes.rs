//! The kubelet's files about volumes, made to do harm: the daemon says that it does not know, and works on.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use bed::scene::{NAME, SOON};
use bed::{
    HangingMount, Registrar, Scene, VolumeDir, eventually, has_program, identity, is_root, stdout,
};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use crate::{PROGRAM, setup};

const WITHOUT_CAPABILITIES: &str = "exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";

fn volumes(scene: &Scene) -> Option<u64> {
    let status = scene.registrar.status().unwrap();
    status.driver(NAME).unwrap().volumes
}

#[track_caller]
fn wait_volumes(scene: &Scene, wanted: Option<u64>) {
    eventually("the volumes are shown", SOON, || volumes(scene) == wanted);
}

/// Why the volumes are not known.
fn why(scene: &Scene) -> String {
    let shown = stdout(&scene.registrar.run_cli(["status", NAME]));
    let words = "it is not known whether volumes are in use: ";
    let (_, why) = shown
        .split_once(words)
        .unwrap_or_else(|| panic!("known: {shown}"));
    assert!(
        !why.contains(|c: char| c.is_control() && c != '\n'),
        "{why:?}"
    );
    why.trim_end().to_owned()
}

/// The daemon still restores its link.
fn lives(scene: &Scene) {
    let link = scene.node.link(NAME);
    fs::remove_file(&link).unwrap();
    eventually("the link is back", SOON, || identity(&link));
}

/// A hostile file: its name, and the function that plants it.
type Plant = (&'static str, fn(&VolumeDir));

const PLANTS: [Plant; 9] = [
    ("huge", |volume| {
        let file = File::create(volume.file()).unwrap();
        file.set_len(1 << 40).unwrap();
    }),
    ("a pipe", |volume| {
        mkfifo(&volume.file(), Mode::S_IRUSR).unwrap();
    }),
    ("a link to /dev/zero", |volume| {
        symlink("/dev/zero", volume.file()).unwrap();
    }),
    ("a link out of the tree", |volume| {
        symlink("/etc/passwd", volume.file()).unwrap();
    }),
    ("not JSON", |volume| volume.put("\u{1b}[2J not JSON")),
    ("empty", |volume| volume.put("")),
    ("nested", |volume| volume.put("[".repeat(60_000))),
    ("a name with control characters", |volume| {
        volume.put(r#"{"driverName":"a\u001b[2J\nb","volumeHandle":"h"}"#);
    }),
    ("a directory", |volume| {
        fs::create_dir(volume.file()).unwrap();
    }),
];

#[test]
fn a_hostile_file_makes_the_volumes_not_known_and_does_no_harm() {
    let (scene, _driver, _kubelet) = setup().registered();
    let kubelet = scene.node.volumes();
    kubelet.pod("uid-1", "pv-1", NAME, "h1");
    for (what, plant) in PLANTS {
        wait_volumes(&scene, Some(1));
        let hostile = kubelet.pod_dir("uid-2", "pv-2").made();
        plant(&hostile);
        wait_volumes(&scene, None);
        let (why, file) = (why(&scene), hostile.file().display().to_string());
        assert!(why.contains(&file), "{what}: {why}");
        kubelet.remove_pod("uid-2");
    }
    wait_volumes(&scene, Some(1));
    lives(&scene);
}

#[test]
fn a_directory_that_the_daemon_may_not_read_makes_the_volumes_not_known() {
    if !is_root("make a directory of another user") || !has_program("setpriv") {
        return;
    }
    let mut scene = setup().set();
    scene.registrar = Registrar::wrapped(PROGRAM, &scene.node, WITHOUT_CAPABILITIES);
    let volume = scene.node.volumes().pod("uid-1", "pv-1", NAME, "h1");
    let pod = scene.node.volumes().pods().join("uid-1");
    chown(&pod, Some(65_534), Some(65_534)).unwrap();
    fs::set_permissions(&pod, Permissions::from_mode(0o700)).unwrap();
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    let _kubelet = scene.node.kubelet();
    scene.phase(NAME, "registered");
    assert_eq!(volumes(&scene), None);
    let words = format!("cannot read {}", pod.display());
    let why = why(&scene);
    assert!(why.starts_with(&words) && why.contains("denied"), "{why}");
    chown(&pod, Some(0), Some(0)).unwrap();
    wait_volumes(&scene, Some(1));
    volume.remove();
    wait_volumes(&scene, Some(0));
}

/// A volume whose server has died hangs every process that touches its mount point.
#[test]
fn a_dead_volume_beside_the_file_does_not_matter() {
    let (scene, _driver, _kubelet) = setup().registered();
    let kubelet = scene.node.volumes();
    let pod = kubelet.pod("uid-1", "pv-1", NAME, "h1");
    let staged = kubelet.staged_from_1_24("sum", NAME, "h1");
    let points = [pod.path().join("mount"), staged.path().join("globalmount")];
    let [Some(mount), Some(global)] = points.map(HangingMount::over) else {
        return;
    };
    let _hangs = [mount.hang(), global.hang()];
    wait_volumes(&scene, Some(1));
    kubelet.pod("uid-2", "pv-2", NAME, "h2");
    wait_volumes(&scene, Some(2));
    lives(&scene);
}

#[test]
fn a_dead_mount_over_the_kubelets_files_makes_the_volumes_not_known() {
    let (scene, _driver, _kubelet) = setup().registered();
    let kubelet = scene.node.volumes();
    kubelet.pod("uid-1", "pv-1", NAME, "h1");
    wait_volumes(&scene, Some(1));
    let volume = kubelet.pod_dir("uid-2", "pv-2");
    let Some(mount) = HangingMount::over(volume.path()) else {
        return;
    };
    let hang = mount.hang();
    wait_volumes(&scene, None);
    let why = why(&scene);
    assert!(why.contains("a file system is mounted there"), "{why}");
    lives(&scene);
    drop(hang);
    drop(mount);
    wait_volumes(&scene, Some(1));
}

#[test]
fn a_disk_of_the_kubelet_that_hangs_costs_the_answer_and_one_thread() {
    let (mut scene, _driver, _kubelet) = setup().registered();
    let kubelet = scene.node.volumes();
    let Some(disk) = HangingMount::over(kubelet.pods()) else {
        return;
    };
    kubelet.pod("uid-1", "pv-1", NAME, "h1");
    wait_volumes(&scene, Some(1));
    let hang = disk.hang();
    wait_volumes(&scene, None);
    let why = why(&scene);
    assert!(why.contains("were not read within"), "{why}");
    lives(&scene);
    for _ in 0..5 {
        assert_eq!(volumes(&scene), None);
    }
    // One thread waits, however often a client asks.
    assert!(scene.registrar.thread_count() <= 3);
    drop(hang);
    wait_volumes(&scene, Some(1));
    let _hang = disk.hang();
    wait_volumes(&scene, None);
    scene.registrar.signal(Signal::SIGTERM);
    assert!(scene.registrar.wait_exit(SOON).success());
}

/// Only root writes there. A process of another user cannot get in at all.
#[test]
fn links_in_the_kubelets_tree_are_not_followed() {
    let (scene, _driver, _kubelet) = setup().registered();
    let kubelet = scene.node.volumes();
    let elsewhere = scene.node.root().join("elsewhere");
    let volume = kubelet.pod("uid-1", "pv-1", NAME, "h1");
    wait_volumes(&scene, Some(1));
    let pod = kubelet.pods().join("uid-1");
    for directory in [volume.path(), volume.path().parent().unwrap(), &pod] {
        fs::rename(directory, &elsewhere).unwrap();
        symlink(&elsewhere, directory).unwrap();
        wait_volumes(&scene, None);
        let why = why(&scene);
        assert!(why.ends_with(&in_words(directory)), "{why}");
        fs::remove_file(directory).unwrap();
        fs::rename(&elsewhere, directory).unwrap();
        wait_volumes(&scene, Some(1));
    }
}

fn in_words(directory: &Path) -> String {
    format!("cannot read {}: it is a link", directory.display())
}
