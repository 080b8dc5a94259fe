//! File systems whose server hangs: a process that touches one waits until the server answers.

use std::fs;
use std::path::Path;
use std::time::Duration;

use bed::scene::{NAME, OTHER, SOON};
use bed::wire::get_info;
use bed::{Behaviour, FakeDriver, HangingMount, NotifySocket, Scene, eventually, identity};
use nix::sys::signal::Signal;

use crate::{PROGRAM, setup};

const HASTE: &str = "[defaults]\nrequest_timeout = \"500ms\"\n";
const FOUND: &str = "[defaults]\nrequest_timeout = \"500ms\"\n[discovery]\nenabled = true\n";
/// The watchdog's interval: the daemon resyncs each time it feeds the watchdog.
const WATCHDOG: Duration = Duration::from_secs(2);
const HANGS: &str = "file system at";

/// Starts the registrar with a NOTIFY_SOCKET.
fn watched(scene: &mut Scene) -> NotifySocket {
    let systemd = NotifySocket::bind(scene.node.root().join("notify"));
    let registrar = bed::Registrar::new(PROGRAM, &scene.node)
        .with_env("NOTIFY_SOCKET", systemd.path())
        .with_env("WATCHDOG_USEC", WATCHDOG.as_micros().to_string());
    scene.registrar = registrar;
    scene.registrar.start();
    systemd
}

/// The registrar serves a driver whose file system does not hang.
fn lives(scene: &Scene, systemd: &NotifySocket, other: &mut FakeDriver) {
    let link = scene.node.link(OTHER);
    fs::remove_file(&link).unwrap();
    eventually("the link is back", SOON, || identity(&link));
    scene.wait_answered(OTHER);
    let signs = systemd.count("WATCHDOG=1");
    eventually("the watchdog is fed", SOON, || {
        systemd.count("WATCHDOG=1") > signs + 1
    });
    other.kill();
    answers(scene, OTHER, false);
    other.restart(Behaviour::named(OTHER));
    answers(scene, OTHER, true);
    scene.registrar.succeed(&["reload"]);
}

/// A registered driver answers, or does not.
fn answers(scene: &Scene, id: &str, answering: bool) {
    let what = format!("{id} answers: {answering}");
    scene.registrar.wait_driver(&what, id, SOON, |driver| {
        let reason = driver.reason.as_deref().unwrap_or_default();
        driver.phase == "registered" && reason.contains("registration retained") != answering
    });
}

fn publishes(path: &Path) -> bool {
    get_info(path).is_ok()
}

#[test]
fn a_driver_whose_file_system_hangs_delays_no_other_driver() {
    let mut scene = setup().drivers(&[NAME, OTHER]).http().more(HASTE).set();
    let directory = scene.node.plugins_dir().join(NAME);
    let Some(mount) = HangingMount::over(&directory) else {
        return;
    };
    let _driver = FakeDriver::start(scene.node.csi_socket(NAME), Behaviour::named(NAME));
    let mut other = scene.node.driver(OTHER);
    let kubelet = scene.node.kubelet();
    let systemd = watched(&mut scene);
    scene.phase(NAME, "registered");
    scene.phase(OTHER, "registered");
    let before = scene.registrar.status().unwrap();

    let hang = mount.hang();
    scene.registrar.wait_reason(NAME, "registered", HANGS, SOON);
    lives(&scene, &systemd, &mut other);
    // One thread waits, however often the daemon looks. Others come and go with a question about volumes.
    eventually("the other threads have ended", SOON, || {
        scene.registrar.thread_count() <= 3
    });

    drop(hang);
    answers(&scene, NAME, true);
    let after = scene.phase(NAME, "registered");
    let before = before.driver(NAME).unwrap();
    assert_eq!(after.announcements, before.announcements);
    assert_eq!(after.registrations, before.registrations);
    drop(kubelet);

    // While the mount hangs again, SIGTERM still stops the daemon.
    let _hang = mount.hang();
    scene.registrar.wait_reason(NAME, "registered", HANGS, SOON);
    scene.registrar.signal(Signal::SIGTERM);
    assert!(scene.registrar.wait_exit(SOON).success());
}

#[test]
fn a_file_system_that_hangs_at_the_start_delays_no_other_driver() {
    let mut scene = setup().drivers(&[]).http().more(FOUND).set();
    let Some(mount) = HangingMount::over(scene.node.plugins_dir().join(NAME)) else {
        return;
    };
    let _driver = FakeDriver::start(scene.node.csi_socket(NAME), Behaviour::named(NAME));
    let mut other = scene.node.driver(OTHER);
    let hang = mount.hang();
    let systemd = watched(&mut scene);
    systemd.wait_for("READY=1", SOON);
    scene.wait_answered(OTHER);
    let _kubelet = scene.node.kubelet();
    scene.phase(OTHER, "registered");
    lives(&scene, &systemd, &mut other);
    assert!(!publishes(&scene.node.link(NAME)));

    drop(hang);
    scene.phase(NAME, "registered");
}

#[test]
fn a_plugins_dir_that_hangs_keeps_what_is_registered_and_the_watchdog_alive() {
    let mut scene = setup().drivers(&[]).http().more(FOUND).set();
    let elsewhere = scene.node.root().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let socket = elsewhere.join("csi.sock");
    let table = format!("[drivers.\"{OTHER}\"]\ncsi_socket = {socket:?}\n");
    scene
        .node
        .write_default_config(&[], &format!("{FOUND}{table}"));
    let Some(mount) = HangingMount::over(scene.node.plugins_dir()) else {
        return;
    };
    let _driver = scene.node.driver(NAME);
    let mut other = FakeDriver::start(&socket, Behaviour::named(OTHER));
    let _kubelet = scene.node.kubelet();
    let systemd = watched(&mut scene);
    scene.phase(NAME, "registered");
    scene.phase(OTHER, "registered");

    let hang = mount.hang();
    scene.registrar.wait_reason(NAME, "registered", HANGS, SOON);
    lives(&scene, &systemd, &mut other);
    drop(hang);
    answers(&scene, NAME, true);
}

#[test]
fn a_driver_on_a_file_system_that_may_hang_is_noticed_at_once() {
    let scene = setup().http().started();
    let Some(_mount) = HangingMount::over(scene.node.plugins_dir().join(NAME)) else {
        return;
    };
    let mut driver = FakeDriver::start(scene.node.csi_socket(NAME), Behaviour::named(NAME));
    scene.wait_answered(NAME);
    let _kubelet = scene.node.kubelet();
    scene.phase(NAME, "registered");
    driver.restart(Behaviour::named(NAME));
    answers(&scene, NAME, true);
}
