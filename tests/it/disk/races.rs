//! Another process that comes to our places at the same moment as we do.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bed::scene::{SOON, is_alive};
use bed::{FakeDriver, Scene, eventually};

use crate::setup;

const DRIVERS: u32 = 30;
/// A socket or a link is put back at once so often.
const ROUNDS: u32 = 3;
/// A file comes later and later, in steps that are shorter than what is raced with.
const STEP: Duration = Duration::from_micros(20);
/// Whoever has looked before a file came has renamed by then.
const RENAMED: Duration = Duration::from_millis(1);

/// A daemon with as many drivers as there are races to be had at once.
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

/// An inode is not given to another file while this one is open.
fn is_at(file: &File, path: &Path) -> bool {
    let ours = file.metadata().unwrap();
    fs::symlink_metadata(path).is_ok_and(|found| found.ino() == ours.ino())
}

/// Takes the socket away and puts a file in its place, again and again, each time a little later after
/// the place was free, until the socket is back. Tells how many files came, and how many were replaced.
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

/// Between the look at a place and the rename there is time for a file that nobody may replace.
#[test]
fn a_file_that_comes_at_the_same_moment_as_our_socket_is_not_replaced() {
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

/// A link that leads nowhere may be replaced, and what comes instead of it may not.
#[test]
fn a_file_that_takes_the_place_of_a_dead_link_before_ours_does_is_not_replaced() {
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
        // One that was exchanged goes back.
        eventually("the file is there", SOON, || is_at(&file, &link));
        fs::remove_file(&link).unwrap();
    }
}
