//! Another process creates a file at the same path and at the same moment as the registrar.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bed::scene::{SOON, is_alive};
use bed::{FakeDriver, Scene, eventually};

use crate::setup;

const DRIVERS: u32 = 30;
/// So often the registrar puts a socket or a link back at once.
const ROUNDS: u32 = 3;
/// The file comes later each time, in steps shorter than the race.
const STEP: Duration = Duration::from_micros(20);
/// A registrar that looked before the file came has renamed by then.
const RENAMED: Duration = Duration::from_millis(1);

/// A daemon with one driver for each race that runs at once.
fn scene() -> (Scene, Vec<String>, Vec<FakeDriver>) {
    let ids: Vec<String> = (0..DRIVERS).map(|n| format!("driver-{n}.test")).collect();
    let configured: Vec<&str> = ids.iter().map(String::as_str).collect();
    let scene = setup().drivers(&configured).started();
    let drivers = ids.iter().map(|id| scene.node.driver(id)).collect();
    (scene, ids, drivers)
}

fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {}
}

/// While the file is open, the kernel gives its inode to no other file.
fn is_at(file: &File, path: &Path) -> bool {
    let ours = file.metadata().unwrap();
    fs::symlink_metadata(path).is_ok_and(|found| found.ino() == ours.ino())
}

/// Removes the socket and creates a file at its path, again and again, each time a little later, until
/// the socket is back. Returns how many files were created and how many were replaced.
fn race_for_a_free_place(socket: &Path) -> (u32, u32) {
    let (mut came, mut lost) = (0, 0);
    fs::remove_file(socket).unwrap();
    loop {
        spin(STEP * came);
        let Ok(file) = File::create_new(socket) else {
            return (came, lost);
        };
        came += 1;
        thread::sleep(RENAMED);
        if is_at(&file, socket) {
            fs::remove_file(socket).unwrap();
        } else {
            lost += 1;
        }
    }
}

/// Between the registrar's look and its rename, another process can create a file that must not be
/// replaced.
#[test]
fn a_file_created_at_the_same_moment_as_the_socket_is_not_replaced() {
    let (scene, ids, _drivers) = scene();
    let (mut came, mut lost) = (0, 0);
    for _ in 0..ROUNDS {
        for id in &ids {
            let socket = scene.node.reg_socket(id);
            eventually("the socket is served", SOON, || is_alive(&socket));
            let race = race_for_a_free_place(&socket);
            came += race.0;
            lost += race.1;
        }
    }
    assert!(came > 0, "the daemon was always faster");
    assert_eq!(lost, 0, "of {came} files");
}

/// The registrar may replace a dangling link, but not a file that takes the link's place.
#[test]
fn a_file_that_replaces_a_dead_link_first_is_not_replaced() {
    let (scene, ids, _drivers) = scene();
    let beside = scene.node.kubelet_root().join("beside");
    for (id, n) in ids.iter().zip(1..) {
        scene.wait_published(id);
        let link = scene.node.link(id);
        symlink("/nowhere", &beside).unwrap();
        fs::rename(&beside, &link).unwrap();
        let file = File::create_new(&beside).unwrap();
        spin(STEP * n);
        fs::rename(&beside, &link).unwrap();
        thread::sleep(RENAMED);
        // A file that the rename exchanged goes back.
        eventually("the file is there", SOON, || is_at(&file, &link));
        fs::remove_file(&link).unwrap();
    }
}
