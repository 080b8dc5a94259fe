//! Another process changes files in watched directories without a pause.

use std::fs;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Storm, Weather, eventually};

use crate::lifecycle::notify::under_systemd;

/// A single thread may be slower than the daemon.
const THREADS: usize = 2;

/// The storm lasts until the end of the test, so everything that the test sees happens during the
/// storm.
#[track_caller]
fn everything_goes_on_in(weather: Weather) {
    let (scene, notify) = under_systemd(&[NAME, OTHER], "on_stop = \"withdraw\"");
    // With this interval the daemon feeds the watchdog each second.
    let mut scene = scene.with_env("WATCHDOG_USEC", "2000000");
    let _drivers = [scene.node.driver(NAME), scene.node.driver(OTHER)];
    let kubelet = scene.node.kubelet();
    scene.registrar.start();
    for name in [NAME, OTHER] {
        kubelet.wait_registered(name, SOON);
    }
    let storm = Storm::begin(weather, THREADS, &scene.node, &[NAME, OTHER]);
    goes_on(&storm);
    for number in 0..50 {
        let info = scene.is_published(NAME);
        assert!(info.is_ok(), "call {number}: {info:?}");
    }
    assert!(scene.registrar.status().unwrap().ready);
    let fed = notify.count("WATCHDOG=1");
    eventually("the watchdog is fed", SOON, || {
        notify.count("WATCHDOG=1") >= fed + 2
    });
    fs::remove_file(scene.node.link(NAME)).unwrap();
    scene.wait_published(NAME);
    assert_eq!(scene.registrar.stop().code(), Some(0));
    scene.wait_no_link(NAME);
    goes_on(&storm);
}

#[track_caller]
fn goes_on(storm: &Storm) {
    let before = storm.changes();
    eventually("the storm goes on", SOON, || storm.changes() > before);
}

#[test]
fn while_modes_change_without_a_pause_callers_systemd_and_signals_are_served() {
    everything_goes_on_in(Weather::Modes);
}

#[test]
fn while_files_come_and_go_without_a_pause_callers_systemd_and_signals_are_served() {
    everything_goes_on_in(Weather::Comings);
}

#[test]
fn while_files_are_renamed_without_a_pause_callers_systemd_and_signals_are_served() {
    everything_goes_on_in(Weather::Renames);
}
