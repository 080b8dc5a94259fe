//! A restart of the daemon is no event in the life of a driver: ages and counts go on.

use bed::scene::{A_WHILE, NAME, OTHER, SOON};
use bed::{DriverStatus, Scene, eventually, stays};

use crate::setup;

/// How the daemon ends before it starts again.
#[derive(Clone, Copy, Debug)]
enum End {
    Stopped,
    Killed,
}

fn restart(scene: &mut Scene, end: End) {
    match end {
        End::Stopped => drop(scene.registrar.stop()),
        End::Killed => scene.registrar.kill9(),
    }
    scene.registrar.start();
    scene.wait_up();
}

/// What a restart must not change.
fn history(driver: &DriverStatus) -> (&str, &str, [u64; 4]) {
    let counts = [
        driver.registrations,
        driver.rejections,
        driver.announcements,
        driver.link_repairs,
    ];
    (&driver.phase, &driver.since, counts)
}

#[test]
fn ages_and_counts_go_on_over_a_restart_and_over_kill_9() {
    for end in [End::Stopped, End::Killed] {
        let keep = "[service]\non_stop = \"keep\"\n";
        let (mut scene, _driver, _kubelet) =
            setup().drivers(&[NAME, OTHER]).more(keep).registered();
        std::fs::remove_file(scene.node.link(NAME)).unwrap();
        let repaired = scene
            .registrar
            .wait_driver("the link was repaired", NAME, SOON, |driver| {
                driver.link_repairs == 1 && driver.phase == "registered"
            });
        let waiting = scene.phase(OTHER, "waiting-for-driver");
        restart(&mut scene, end);
        let (after, still) = (
            scene.phase(NAME, "registered"),
            scene.phase(OTHER, "waiting-for-driver"),
        );
        assert_eq!(history(&after), history(&repaired), "{end:?}");
        assert_eq!(history(&still), history(&waiting), "{end:?}");
        // A phase that is entered now has its own age.
        let _other = scene.node.driver(OTHER);
        let other = scene.phase(OTHER, "registered");
        assert!(other.since > after.since, "{other:?}");
        assert_eq!(other.registrations, 1);
    }
}

/// No kubelet runs, so that the driver waits for one before and after the restart.
#[test]
fn a_driver_that_waits_for_the_kubelet_has_waited_since_before_the_restart() {
    let (mut scene, _driver) = setup().more("[service]\non_stop = \"keep\"\n").published();
    let before = scene.phase(NAME, "waiting-for-kubelet");
    restart(&mut scene, End::Stopped);
    let after = scene.phase(NAME, "waiting-for-kubelet");
    assert_eq!(after.since, before.since);
}

/// The age of an earlier phase says nothing about a phase that the driver enters long after the start.
#[test]
fn a_driver_that_comes_after_the_restart_waits_since_it_came() {
    let (mut scene, driver) = setup().more("[service]\non_stop = \"keep\"\n").published();
    let before = scene.phase(NAME, "waiting-for-kubelet");
    scene.registrar.stop();
    drop(driver);
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    let _driver = scene.node.driver(NAME);
    let after = scene.phase(NAME, "waiting-for-kubelet");
    assert!(after.since > before.since, "{after:?}");
}

#[test]
fn the_journal_says_the_version_first_and_how_each_driver_was_taken_up_once() {
    let keep = "[service]\non_stop = \"keep\"\n";
    let (mut scene, _driver, _kubelet) = setup().drivers(&[NAME, OTHER]).more(keep).registered();
    let since = scene.phase(NAME, "registered").since;
    scene.registrar.stop();
    let logged = scene.registrar.logs().len();
    scene.registrar.start();
    scene.phase(NAME, "registered");
    let new_lines = |scene: &Scene| scene.registrar.logs().split_off(logged);
    let version = format!(
        "node-storage-driver-registrar {} starts",
        env!("CARGO_PKG_VERSION")
    );
    let taken_up = format!(
        "{NAME}: taken up after a restart, registered since {since}: registered by kubelet (pid "
    );
    let waits = format!("{OTHER}: taken up after a restart, waiting-for-driver since ");
    eventually("both drivers are taken up", SOON, || {
        let lines = new_lines(&scene);
        lines.contains(&taken_up) && lines.contains(&waits)
    });
    stays("said once, and nothing else is said", A_WHILE, || {
        let lines = new_lines(&scene);
        let about = lines.lines().filter(|line| line.contains(NAME));
        about.count() == 1
            && lines
                .lines()
                .next()
                .is_some_and(|first| first.contains(&version))
    });
}
