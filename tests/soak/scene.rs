//! A node with a hundred drivers, and the checks between two laps.

use std::time::Duration;

use bed::scene::{KEEP, reason};
use bed::{FakeDriver, KubeletProcess, Release, Scene, eventually_every};

use crate::setup;

pub(crate) const DRIVERS: usize = 100;
/// A busy machine, a hundred drivers, and a back-off of the registrar that has reached its end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Each look at the status starts a process.
const LOOK_AGAIN: Duration = Duration::from_millis(150);

/// A scene with [`DRIVERS`] drivers.
pub(crate) type SoakScene = Scene<KubeletProcess, Vec<FakeDriver>>;

pub(crate) fn name(number: usize) -> String {
    format!("soak-{number}.test")
}

/// Every driver is registered.
pub(crate) fn started() -> SoakScene {
    let scene = setup().discovery().http().more(KEEP).set();
    let settings = scene.node.eager_kubelet_settings(Release::V1_36);
    let drivers = (0..DRIVERS).map(|number| scene.node.driver(&name(number)));
    let drivers = drivers.collect();
    let mut scene = scene.with(KubeletProcess::start(settings), drivers);
    scene.registrar.start();
    wait_registered(&scene);
    scene
}

/// Waits until the kubelet and the registrar agree that every driver is registered and answers.
#[track_caller]
pub(crate) fn wait_registered(scene: &SoakScene) {
    let what = "every driver is registered";
    eventually_every(LOOK_AGAIN, what, PATIENCE, || missing(scene));
}

fn missing(scene: &SoakScene) -> Result<(), String> {
    let registered = scene.kubelet.registered().len();
    if registered != DRIVERS {
        return Err(format!("the kubelet has {registered} drivers"));
    }
    let status = scene.registrar.status().ok_or("no daemon answers")?;
    let well = status.drivers.iter().filter(|driver| {
        driver.phase == "registered" && !reason(driver).contains("not responding")
    });
    let well = well.count();
    if well == DRIVERS {
        return Ok(());
    }
    Err(format!("{well} drivers are well: {status:#?}"))
}

/// The log has no panic and no error.
#[track_caller]
pub(crate) fn logged_no_error(scene: &SoakScene) {
    let log = scene.registrar.logs();
    let is_bad = |line: &&str| line.contains("panicked at") || line.contains(" ERROR ");
    let bad: Vec<&str> = log.lines().filter(is_bad).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}
