//! Links and sockets when the registrar stops, and when it starts again.

use std::fs;

use bed::scene::{NAME, OTHER, SOON, in_both_layouts, is_nothing, nothing_since};
use bed::{Layout, NotifySocket, Scene, TestKubelet, stderr};
use nix::sys::signal::Signal;

use crate::setup;

/// A registered driver under a registrar with this `on_stop`, run by systemd or not.
fn registered(
    layout: Layout,
    on_stop: &str,
    by_systemd: bool,
) -> (Scene, bed::FakeDriver, TestKubelet, NotifySocket) {
    let mut scene = setup()
        .layout(layout)
        .more(format!("[service]\non_stop = {on_stop:?}\n"))
        .set();
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
    assert_eq!(status.registrations, 1, "{status:?}");
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
fn on_stop_takes_precedence() {
    kept(Layout::TwoDirectories, "keep", false);
    withdrawn(Layout::TwoDirectories, "withdraw", true, Signal::SIGTERM);
}

#[test]
fn a_crash_is_no_event_for_the_kubelet() {
    in_both_layouts(|layout| {
        let (mut scene, mut driver, kubelet) = setup().layout(layout).registered();
        let mark = kubelet.mark();
        scene.registrar.kill9();
        scene.registrar.start();
        scene.phase(NAME, "registered");
        scene.wait_published(NAME);
        // Again while the driver is down: the registrar serves reg.sock without it.
        scene.registrar.kill9();
        driver.stop();
        scene.registrar.start();
        scene.reason(NAME, "registered", "registration retained");
        let link = scene.node.link(NAME);
        assert!(bed::wire::notify(&link, None).is_ok());
        nothing_since(&kubelet, mark);
    });
}

#[test]
fn leftovers_of_drivers_that_are_no_longer_configured_are_removed() {
    in_both_layouts(|layout| {
        let (mut scene, driver, _kubelet) = setup().layout(layout).registered();
        scene.registrar.kill9();
        drop(driver);
        scene.node.write_default_config(&[], "");
        scene.registrar.start();
        scene.wait_no_link(NAME);
        let socket = scene.node.reg_socket(NAME);
        bed::eventually("the socket goes", SOON, || is_nothing(&socket));
    });
}

/// As the package does on removal, after it has stopped the unit.
#[test]
fn kept_registrations_are_withdrawn_when_the_package_is_removed() {
    in_both_layouts(|layout| {
        let (mut scene, _driver, kubelet, _notify) = registered(layout, "keep", true);
        scene.registrar.stop();
        assert!(!is_nothing(&scene.node.link(NAME)));
        scene.registrar.succeed(&["clean-up"]);
        assert!(is_nothing(&scene.node.link(NAME)));
        assert!(is_nothing(&scene.node.reg_socket(NAME)));
        kubelet.wait_deregistered(NAME, SOON);
        // A second call has nothing to do, and succeeds. No state remains that would withdraw the
        // driver when the package is installed again.
        scene.registrar.succeed(&["clean-up"]);
        scene.registrar.start();
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
    });
}

#[test]
fn leftovers_of_a_crash_are_removed_with_the_package_by_the_state_or_the_configuration() {
    in_both_layouts(|layout| {
        for lost in ["state.json", "config.toml"] {
            let (mut scene, _driver, kubelet, _notify) = registered(layout, "keep", true);
            scene.registrar.kill9();
            match lost {
                "state.json" => fs::remove_dir_all(scene.node.runtime_dir()).unwrap(),
                _ => scene.node.write_config("nonsense = 1\n"),
            }
            scene.registrar.run_cli(["clean-up"]);
            assert!(is_nothing(&scene.node.link(NAME)), "without {lost}");
            assert!(is_nothing(&scene.node.reg_socket(NAME)), "without {lost}");
            kubelet.wait_deregistered(NAME, SOON);
        }
    });
}

#[test]
fn a_daemon_that_runs_is_not_cleaned_up_after() {
    let (scene, _driver, kubelet, _notify) = registered(Layout::TwoDirectories, "keep", true);
    let mark = kubelet.mark();
    let output = scene.registrar.run_cli(["clean-up"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let pid = scene.registrar.pid();
    assert!(
        stderr(&output).contains(&format!("pid {pid} holds")),
        "{output:?}"
    );
    nothing_since(&kubelet, mark);
    scene.phase(NAME, "registered");
}

#[test]
fn foreign_files_stay_when_the_package_is_removed() {
    let scene = setup().set();
    fs::create_dir_all(scene.node.registry_dir()).unwrap();
    // A driver of another instance that is down for a moment, and a foreign file at the driver's path.
    bed::dead_socket(&scene.node.reg_socket(OTHER));
    std::os::unix::fs::symlink(scene.node.reg_socket(OTHER), scene.node.link(OTHER)).unwrap();
    fs::write(scene.node.link(NAME), "a file").unwrap();
    let _stranger = bed::RawListener::silent(&scene.node.reg_socket(NAME));
    let before = scene.files();
    let output = scene.registrar.run_cli(["clean-up"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(scene.files(), before);
    // No other command reports it.
    let link = scene.node.link(OTHER);
    let remedy = format!("rm {}", link.display());
    assert!(stderr(&output).contains(&remedy), "{output:?}");
}
