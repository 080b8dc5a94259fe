//! A driver whose server closes idle or old connections, as gRPC servers can be configured to: the
//! driver runs all the time, and its link stays.

use std::time::Duration;

use bed::driver::Closing;
use bed::scene::{NAME, SOON, nothing_since};
use bed::{Behaviour, FakeDriver, Scene, eventually, identity};

use crate::setup;

const SHORT: Duration = Duration::from_millis(100);
/// Connections that the server closes one after the other.
const ROUNDS: usize = 6;

const WAYS: [Closing; 3] = [
    Closing::Idle(SHORT),
    Closing::IdleUnsaid(SHORT),
    Closing::Aged(SHORT),
];

#[track_caller]
fn wait_rounds(driver: &FakeDriver) {
    let before = driver.met();
    eventually("many connections end", SOON, || {
        let met = driver.met() - before;
        (met > ROUNDS).then_some(()).ok_or(met.to_string())
    });
}

/// The log does not say that the driver went away, because it did not.
#[track_caller]
fn is_unheard_of(scene: &Scene) {
    let logs = scene.registrar.logs();
    for words in ["the driver is gone", "the driver is back"] {
        assert!(!logs.contains(words), "{logs}");
    }
}

#[test]
fn a_server_that_closes_connections_keeps_its_link_without_a_kubelet() {
    for closing in WAYS {
        let scene = setup().started();
        let driver = scene
            .node
            .behaving(NAME, Behaviour::named(NAME).closing(closing));
        scene.wait_published(NAME);
        let link = identity(&scene.node.link(NAME));
        wait_rounds(&driver);
        assert_eq!(identity(&scene.node.link(NAME)), link, "{closing:?}");
        let status = scene.phase(NAME, "waiting-for-kubelet");
        assert_eq!((status.announcements, status.last_error), (1, None));
        is_unheard_of(&scene);
    }
}

#[test]
fn a_server_that_closes_connections_stays_registered_and_the_log_is_quiet() {
    for closing in WAYS {
        let scene = setup().started();
        let kubelet = scene.node.kubelet();
        let driver = scene
            .node
            .behaving(NAME, Behaviour::named(NAME).closing(closing));
        kubelet.wait_registered(NAME, SOON);
        let since = scene.phase(NAME, "registered").since;
        let mark = kubelet.mark();
        wait_rounds(&driver);
        nothing_since(&kubelet, mark);
        assert_eq!(scene.phase(NAME, "registered").since, since);
        is_unheard_of(&scene);
    }
}

#[test]
fn a_server_that_closes_connections_at_once_is_not_asked_at_full_speed() {
    let scene = setup().started();
    let closing = Closing::IdleUnsaid(Duration::from_millis(1));
    let driver = scene
        .node
        .behaving(NAME, Behaviour::named(NAME).closing(closing));
    scene.wait_published(NAME);
    wait_rounds(&driver);
    let before = driver.met();
    bed::never("connections without end", Duration::from_secs(3), || {
        driver.met() > before + 40
    });
}

#[test]
fn a_driver_that_dies_after_its_server_has_closed_connections_is_noticed() {
    let scene = setup().started();
    let closing = Behaviour::named(NAME).closing(Closing::Idle(SHORT));
    let mut driver = scene.node.behaving(NAME, closing.clone());
    scene.wait_published(NAME);
    wait_rounds(&driver);
    driver.kill();
    scene.wait_no_link(NAME);
    scene.reason(NAME, "waiting-for-driver", "no process listens on");
    driver.restart(closing);
    scene.wait_published(NAME);
}
