//! A driver's socket or directory is removed: what the registrar keeps, and for how long.

use std::fs;
use std::time::Duration;

use bed::kubelet::Counts;
use bed::scene::{A_WHILE, NAME, OTHER, SOON, is_nothing};
use bed::{FakeDriver, Layout, Scene, TestKubelet, eventually, stays};

use crate::setup;

/// A driver that a kubelet has registered.
fn registered(scene: &Scene) -> (TestKubelet, FakeDriver) {
    let kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    (kubelet, driver)
}

#[test]
fn a_driver_whose_socket_is_removed_stays() {
    let scene = setup().discovery().started();
    let mut driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    driver.stop();
    scene.phase(NAME, "waiting-for-driver");
    assert!(is_nothing(&scene.node.link(NAME)));
    stays("it is known", A_WHILE, || scene.ids() == [NAME]);
    driver.restart(driver.behaviour());
    scene.phase(NAME, "waiting-for-kubelet");
}

#[test]
fn a_driver_that_is_not_registered_is_forgotten_with_its_directory() {
    for layout in Layout::ALL {
        let scene = setup().layout(layout).discovery().started();
        let driver = scene.node.driver(NAME);
        scene.phase(NAME, "waiting-for-kubelet");
        // The process still runs, and its connection to the registrar is open.
        fs::remove_dir_all(scene.directory(NAME)).unwrap();
        scene.wait_forgotten(NAME);
        assert!(is_nothing(&scene.node.link(NAME)));
        assert!(is_nothing(&scene.node.reg_socket(NAME)));
        drop(driver);
        let _again = scene.node.driver(NAME);
        scene.phase(NAME, "waiting-for-kubelet");
    }
}

#[test]
fn a_registered_driver_is_kept_without_its_directory_and_the_kubelet_sees_nothing() {
    let scene = setup().discovery().started();
    let (kubelet, driver) = registered(&scene);
    let mark = kubelet.mark();
    drop(driver);
    fs::remove_dir_all(scene.directory(NAME)).unwrap();
    scene.reason(NAME, "registered", "registration retained");
    stays("it is kept", A_WHILE, || scene.ids() == [NAME]);
    let _back = scene.node.driver(NAME);
    scene
        .registrar
        .wait_driver("it answers", NAME, SOON, |driver| {
            driver.phase == "registered" && !driver.reason.as_deref().unwrap_or("").contains("kept")
        });
    assert_eq!(kubelet.counts_since(mark), Counts::default());
}

#[test]
fn a_registered_driver_is_withdrawn_and_forgotten_when_its_directory_is_gone_for_good() {
    for layout in Layout::ALL {
        let scene = setup()
            .layout(layout)
            .discovery()
            .more("[defaults]\nwithdraw_after = \"1s\"\n")
            .started();
        let kubelet = scene.node.kubelet();
        let _other = scene.node.driver(OTHER);
        let driver = scene.node.driver(NAME);
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
        drop(driver);
        fs::remove_dir_all(scene.directory(NAME)).unwrap();
        kubelet.wait_deregistered(NAME, SOON);
        scene.wait_forgotten(NAME);
        assert!(is_nothing(&scene.node.reg_socket(NAME)));
        scene.phase(OTHER, "registered");
    }
}

/// The process runs and its connection to the registrar is open, but no new client can reach it.
#[test]
fn a_registered_driver_that_still_runs_is_withdrawn_after_its_directory_is_gone() {
    let scene = setup()
        .discovery()
        .more("[defaults]\nwithdraw_after = \"1s\"\n")
        .started();
    let (kubelet, _driver) = registered(&scene);
    fs::remove_dir_all(scene.directory(NAME)).unwrap();
    eventually("it is said", SOON, || {
        let logs = scene.registrar.logs();
        let said = logs.contains("its directory is gone; withdrawn unless it is back within 1s");
        said.then_some(()).ok_or(logs)
    });
    kubelet.wait_deregistered(NAME, SOON);
    scene.wait_forgotten(NAME);
    assert!(is_nothing(&scene.node.reg_socket(NAME)));
    // With its directory back, discovery finds it again.
    let _again = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
}

#[test]
fn a_driver_without_its_directory_is_forgotten_when_the_kubelet_ends() {
    let scene = setup().discovery().started();
    let kubelet = bed::KubeletProcess::start(
        bed::Settings::new(scene.node.kubelet_root(), bed::Release::V1_36)
            .with_timing(bed::Timing::faster(10)),
    );
    let driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    drop(driver);
    fs::remove_dir_all(scene.directory(NAME)).unwrap();
    scene.reason(NAME, "registered", "registration retained");
    drop(kubelet);
    scene.wait_forgotten(NAME);
    assert!(is_nothing(&scene.node.link(NAME)));
}

#[test]
fn a_restart_keeps_discovered_drivers_even_without_plugins_dir() {
    let keep = "[service]\non_stop = \"keep\"\n";
    let mut scene = setup().discovery().more(keep).started();
    let kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    let idle = scene.node.driver(OTHER);
    kubelet.wait_registered(NAME, SOON);
    kubelet.wait_registered(OTHER, SOON);
    scene.phase(NAME, "registered");
    scene.phase(OTHER, "registered");
    scene.registrar.succeed(&["withdraw", OTHER]);
    kubelet.wait_deregistered(OTHER, SOON);
    let mark = kubelet.mark();
    scene.registrar.stop();
    let away = scene.node.root().join("away");
    fs::rename(scene.node.plugins_dir(), &away).unwrap();
    scene.registrar.start();
    scene.reason(NAME, "registered", "registration retained");
    scene.phase(OTHER, "withdrawn");
    fs::rename(&away, scene.node.plugins_dir()).unwrap();
    scene
        .registrar
        .wait_driver("it answers", NAME, SOON, |driver| {
            driver.phase == "registered" && !driver.reason.as_deref().unwrap_or("").contains("kept")
        });
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(kubelet.counts_since(mark), Counts::default());
    drop((driver, idle));
}

#[test]
fn a_withdrawal_by_hand_outlives_the_directory() {
    let scene = setup()
        .discovery()
        .more("[defaults]\nwithdraw_after = \"200ms\"\n")
        .started();
    let driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    scene.registrar.succeed(&["withdraw", NAME]);
    drop(driver);
    fs::remove_dir_all(scene.directory(NAME)).unwrap();
    stays("it is known", A_WHILE, || scene.ids() == [NAME]);
    let _back = scene.node.driver(NAME);
    stays("it is withdrawn", A_WHILE, || {
        is_nothing(&scene.node.link(NAME))
    });
    scene.registrar.succeed(&["publish", NAME]);
    scene.phase(NAME, "waiting-for-kubelet");
}

/// For example a disk that is not mounted.
#[test]
fn drivers_do_not_leave_with_plugins_dir_itself() {
    let scene = setup()
        .discovery()
        .more("[defaults]\nwithdraw_after = \"1h\"\n")
        .started();
    let (kubelet, driver) = registered(&scene);
    let mark = kubelet.mark();
    drop(driver);
    let away = scene.node.root().join("away");
    fs::rename(scene.node.plugins_dir(), &away).unwrap();
    scene.reason(NAME, "registered", "registration retained");
    assert!(!scene.registrar.logs().contains("directory is gone"));
    fs::rename(&away, scene.node.plugins_dir()).unwrap();
    fs::remove_dir_all(scene.directory(NAME)).unwrap();
    let _back = scene.node.driver(NAME);
    scene
        .registrar
        .wait_driver("it answers", NAME, SOON, |driver| {
            !driver.reason.as_deref().unwrap_or("").contains("kept")
        });
    assert_eq!(kubelet.counts_since(mark), Counts::default());
}
