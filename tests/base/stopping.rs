//! What becomes of links and sockets when the registrar ends, and when it comes back.

use std::fs;

use bed::{Layout, NotifySocket, TestKubelet};
use nix::sys::signal::Signal;

use crate::scene::{NAME, SOON, Scene, in_both_layouts, is_nothing, nothing_since};

/// A registered driver under a registrar with this `on_stop`, run by systemd or not.
fn registered(
    layout: Layout,
    on_stop: &str,
    by_systemd: bool,
) -> (Scene, bed::FakeDriver, TestKubelet, NotifySocket) {
    let mut scene = Scene::new(
        layout,
        &[NAME],
        &format!("[service]\non_stop = {on_stop:?}\n"),
    );
    let notify = NotifySocket::bind(scene.node.root().join("notify"));
    if by_systemd {
        scene = scene.with_env("NOTIFY_SOCKET", notify.path());
    }
    let kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    scene.registrar.start();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    (scene, driver, kubelet, notify)
}

#[track_caller]
fn withdrawn(layout: Layout, on_stop: &str, by_systemd: bool, signal: Signal) {
    let (mut scene, _driver, kubelet, _notify) = registered(layout, on_stop, by_systemd);
    scene.registrar.signal(signal);
    assert_eq!(scene.registrar.wait_exit(SOON).code(), Some(0));
    assert!(is_nothing(&scene.node.link(NAME)));
    assert!(is_nothing(&scene.node.reg_socket(NAME)));
    kubelet.wait_deregistered(NAME, SOON);
    scene.registrar.start();
    kubelet.wait_registered(NAME, SOON);
}

#[track_caller]
fn kept(layout: Layout, on_stop: &str, by_systemd: bool) {
    let (mut scene, _driver, kubelet, _notify) = registered(layout, on_stop, by_systemd);
    let mark = kubelet.mark();
    let link = fs::symlink_metadata(scene.node.link(NAME)).unwrap();
    assert_eq!(scene.registrar.stop().code(), Some(0));
    assert!(!is_nothing(&scene.node.link(NAME)));
    nothing_since(&kubelet, mark);
    scene.registrar.start();
    let status = scene.phase(NAME, "registered");
    assert_eq!(status.registrations, 0, "{status:?}");
    scene.wait_published(NAME);
    nothing_since(&kubelet, mark);
    let after = fs::symlink_metadata(scene.node.link(NAME)).unwrap();
    assert_eq!(link.modified().unwrap(), after.modified().unwrap());
}

#[test]
fn outside_systemd_a_stop_withdraws() {
    in_both_layouts(|layout| {
        withdrawn(layout, "auto", false, Signal::SIGTERM);
    });
    withdrawn(Layout::TwoDirectories, "auto", false, Signal::SIGINT);
}

#[test]
fn under_systemd_a_termination_keeps_and_the_kubelet_notices_nothing() {
    in_both_layouts(|layout| kept(layout, "auto", true));
}

#[test]
fn on_stop_has_the_last_word() {
    kept(Layout::TwoDirectories, "keep", false);
    withdrawn(Layout::TwoDirectories, "withdraw", true, Signal::SIGTERM);
}

#[test]
fn a_crash_is_no_event_for_the_kubelet() {
    in_both_layouts(|layout| {
        let (mut scene, mut driver, kubelet) = Scene::registered(layout);
        let mark = kubelet.mark();
        scene.registrar.kill9();
        scene.registrar.start();
        scene.phase(NAME, "registered");
        scene.wait_published(NAME);
        // And once more while the driver is away: reg.sock is served again without it.
        scene.registrar.kill9();
        driver.stop();
        scene.registrar.start();
        scene.reason(NAME, "registered", "kept although");
        let link = scene.node.link(NAME);
        assert!(bed::wire::notify(&link, None).is_ok());
        nothing_since(&kubelet, mark);
    });
}

#[test]
fn what_an_earlier_run_left_for_drivers_that_are_no_more_is_removed() {
    in_both_layouts(|layout| {
        let (mut scene, driver, _kubelet) = Scene::registered(layout);
        scene.registrar.kill9();
        drop(driver);
        scene.node.write_default_config(&[], "");
        scene.registrar.start();
        scene.wait_no_link(NAME);
        let socket = scene.node.reg_socket(NAME);
        bed::eventually("the socket goes", SOON, || is_nothing(&socket));
    });
}
