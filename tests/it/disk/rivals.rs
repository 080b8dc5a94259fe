//! Another process keeps removing the registrar's files: the registrar puts them back at a bounded
//! pace.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bed::kubelet::Counts;
use bed::scene::{NAME, SOON, TAKE_OVER, in_both_layouts, is_alive};
use bed::{FakeDriver, Layout, RawListener, Scene, eventually};

use crate::setup;

/// How often the rival strikes: at the first file, at three that came back at once, and at two that
/// came after 1 s and 2 s. The next comes after 4 s.
const STRIKES: usize = 6;
/// The pace of [`STRIKES`], in seconds between one strike and the next.
const PACE: [u64; 2] = [1, 2];
const LAST: Duration = Duration::from_secs(4);

/// Strikes each time the registrar's file is back, which happens at a bounded pace. Returns the time of
/// the last strike.
#[track_caller]
fn fight(path: &Path, strike: impl Fn(), is_ours: impl Fn(&Path) -> bool) -> Instant {
    let mut strikes = Vec::new();
    while strikes.len() < STRIKES {
        eventually("ours is back", SOON, || is_ours(path));
        strikes.push(Instant::now());
        strike();
    }
    let at_once = strikes[STRIKES - 1 - PACE.len()] - strikes[0];
    assert!(at_once < AT_ONCE, "{strikes:?}");
    let slowly = strikes[STRIKES - 1 - PACE.len()..].windows(2);
    for (pair, seconds) in slowly.zip(PACE) {
        let least = Duration::from_secs(seconds) - SLACK;
        assert!(pair[1] - pair[0] >= least, "{strikes:?}");
    }
    strikes[STRIKES - 1]
}

/// The registrar puts its file back when the pace allows it, and not before.
#[track_caller]
fn assert_back(last: Instant, path: &Path, is_ours: impl Fn(&Path) -> bool) {
    eventually("ours is back", SOON, || is_ours(path));
    assert!(last.elapsed() >= LAST - SLACK, "{:?}", last.elapsed());
}

/// A rival that looks late sees a shorter pause.
const SLACK: Duration = Duration::from_millis(500);
/// Shorter than the pace for files that come back at once, and long enough for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(6);

fn is_our_link(scene: &Scene) -> impl Fn(&Path) -> bool {
    let target = scene.target(NAME);
    move |path| fs::read_link(path).is_ok_and(|found| found == target)
}

/// A fight over the link, and its end: registered again.
#[track_caller]
fn over_the_link(layout: Layout, more: &str, strike: impl Fn(&Scene, &Path)) {
    let mut scene = setup().layout(layout).more(more).set();
    let kubelet = scene.node.kubelet();
    let _driver: FakeDriver = scene.node.driver(NAME);
    scene.registrar.start();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let link = scene.node.link(NAME);
    let last = fight(&link, || strike(&scene, &link), is_our_link(&scene));
    let count = format!("the link was removed or changed {STRIKES} times");
    scene.reason(NAME, "conflict", &count);
    assert_back(last, &link, is_our_link(&scene));
    kubelet.wait_registered(NAME, SOON);
    let status = scene.phase(NAME, "registered");
    assert_eq!(status.link_repairs, STRIKES as u64, "{status:?}");
}

#[test]
fn a_link_that_a_rival_keeps_removing_comes_back_more_and_more_slowly() {
    in_both_layouts(|layout| {
        over_the_link(layout, "", |_, link| fs::remove_file(link).unwrap());
    });
}

#[test]
fn a_rival_that_keeps_creating_a_dead_link_is_replaced_more_and_more_slowly() {
    over_the_link(Layout::TwoDirectories, "", |scene, link| {
        put_link(scene, "/nowhere".into(), link);
    });
}

#[test]
fn a_live_rival_is_taken_over_more_and_more_slowly() {
    in_both_layouts(|layout| {
        let rival = std::env::temp_dir().join(format!("nsdr-rival-{}.sock", std::process::id()));
        let stranger = RawListener::silent(&rival);
        over_the_link(layout, TAKE_OVER, |scene, link| {
            put_link(scene, rival.clone(), link);
        });
        drop(stranger);
        fs::remove_file(&rival).unwrap();
    });
}

#[test]
fn a_socket_that_a_rival_keeps_removing_comes_back_more_and_more_slowly() {
    in_both_layouts(|layout| {
        let (scene, _driver, kubelet) = setup().layout(layout).registered();
        let socket = scene.node.reg_socket(NAME);
        let mark = kubelet.mark();
        let last = fight(&socket, || fs::remove_file(&socket).unwrap(), is_alive);
        let count = format!("the registration socket was removed or changed {STRIKES} times");
        scene.reason(NAME, "conflict", &count);
        assert_back(last, &socket, is_alive);
        scene.phase(NAME, "registered");
        // The link was never touched, so the cluster has seen nothing of all this. The kubelet may
        // have a line in its log about a hidden file that was gone when it looked.
        let seen = Counts {
            error_lines: 0,
            ..kubelet.counts_since(mark)
        };
        assert_eq!(seen, Counts::default());
    });
}

#[test]
fn a_live_rival_at_the_sockets_place_is_taken_over_more_and_more_slowly() {
    in_both_layouts(|layout| {
        let (scene, _driver) = taking_over(layout);
        let rival = scene.node.root().join("rival.sock");
        let _stranger = RawListener::silent(&rival);
        let theirs = inode(&rival).unwrap();
        let socket = scene.node.reg_socket(NAME);
        let strike = || {
            let staged = scene.node.root().join("staged");
            fs::hard_link(&rival, &staged).unwrap();
            fs::rename(&staged, &socket).unwrap();
        };
        // In this order: each look opens a connection, and the rival accepts only so many.
        let is_ours =
            |path: &Path| inode(path).is_some_and(|found| found != theirs) && is_alive(path);
        let last = fight(&socket, strike, is_ours);
        scene.reason(NAME, "conflict", "the registration socket was removed");
        assert_back(last, &socket, is_ours);
        scene.wait_published(NAME);
        assert!(is_alive(&rival));
    });
}

fn taking_over(layout: Layout) -> (Scene, FakeDriver) {
    let scene = setup().layout(layout).more(TAKE_OVER).started();
    let driver = scene.node.driver(NAME);
    scene.wait_published(NAME);
    (scene, driver)
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|found| found.ino())
}

/// Renames a link to `target` over `place`, atomically.
fn put_link(scene: &Scene, target: PathBuf, place: &Path) {
    let staged = scene.node.root().join("staged");
    symlink(target, &staged).unwrap();
    fs::rename(&staged, place).unwrap();
}
