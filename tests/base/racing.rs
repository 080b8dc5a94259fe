//! Another process that comes to our places at the same moment as we do.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use bed::{Layout, eventually};

use crate::scene::{SOON, Scene, is_alive};

const DRIVERS: usize = 30;
/// How often the daemon puts a socket back at once.
const ROUNDS: u32 = 3;
/// In how many steps a file comes later and later, until the daemon was faster.
const STEP: Duration = Duration::from_micros(20);

/// Takes the socket away and puts a file in its place, again and again, each time a little later after
/// the place was free, until the socket is back. Tells how many files came, and how many were replaced.
fn race(socket: &Path) -> (u32, u32) {
    let (mut came, mut lost) = (0, 0);
    fs::remove_file(socket).unwrap();
    loop {
        let free = Instant::now();
        while free.elapsed() < STEP * came {}
        let Ok(file) = File::create_new(socket) else {
            return (came, lost);
        };
        came += 1;
        // Whoever has looked before it came has renamed by then.
        std::thread::sleep(Duration::from_millis(1));
        let (ours, found) = (file.metadata().unwrap(), fs::symlink_metadata(socket));
        // An inode is not given to another file while this one is open.
        if found.is_ok_and(|found| found.ino() == ours.ino()) {
            fs::remove_file(socket).unwrap();
        } else {
            lost += 1;
        }
    }
}

/// Between the look at a place and the rename there is time for a file that nobody may replace.
#[test]
fn a_file_that_comes_at_the_same_moment_as_our_socket_is_not_replaced() {
    let ids: Vec<String> = (0..DRIVERS).map(|n| format!("driver-{n}.test")).collect();
    let configured: Vec<&str> = ids.iter().map(String::as_str).collect();
    let scene = Scene::started(Layout::TwoDirectories, &configured, "");
    let _drivers: Vec<_> = ids.iter().map(|id| scene.node.driver(id)).collect();
    let (mut came, mut lost) = (0, 0);
    for _ in 0..ROUNDS {
        for id in &ids {
            let socket = scene.node.reg_socket(id);
            eventually("the socket is served", SOON, || is_alive(&socket));
            let race = race(&socket);
            came += race.0;
            lost += race.1;
        }
    }
    assert!(came > 0, "the daemon was always faster");
    assert_eq!(lost, 0, "of {came} files");
}
