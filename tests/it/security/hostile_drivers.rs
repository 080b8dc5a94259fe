//! A driver that is broken or means harm, and the other drivers of the same process.
//! `operator/driver_faults.rs` has the words for each fault.

use std::time::Duration;

use bed::driver::{Answer, Call};
use bed::scene::{NAME, OTHER, SOON, is_nothing};
use bed::{Behaviour, RawListener, eventually, never};
use tonic::Code;

use crate::setup;

/// The registrar retries bad answers so soon that a test sees it.
const QUICK: &str = "[defaults]\nretry_max = \"50ms\"\nrequest_timeout = \"300ms\"\nnode_info_timeout = \"300ms\"\n";

#[test]
fn a_driver_without_a_node_service_is_left_alone_until_something_changes() {
    let scene = setup().more(QUICK).started();
    let controller = Behaviour {
        node_get_info: Answer::Fails(Code::Unimplemented),
        ..Behaviour::named(NAME)
    };
    let driver = scene.node.behaving(NAME, controller);
    scene.reason(NAME, "waiting-for-driver", "has no Node service");
    let asked = driver.calls();
    // The request for the status may cause wake-ups for a while.
    eventually("the registrar sleeps", SOON, || {
        let woken = scene.registrar.wakeups();
        never("it is asked again", Duration::from_secs(1), || {
            driver.calls() != asked
        });
        // A thread that has ended takes its count along.
        let woken = scene.registrar.wakeups().checked_sub(woken);
        let is_asleep = woken.is_some_and(|woken| woken < 5);
        is_asleep.then_some(()).ok_or(format!("{woken:?} wake-ups"))
    });
    // The registrar holds a connection, whose end would show a change.
    assert_eq!(driver.connections(), 1);
}

#[test]
fn a_volume_limit_below_zero_is_none_as_the_kubelet_has_it() {
    let scene = setup().more(QUICK).started();
    let behaviour = Behaviour {
        max_volumes: -1,
        ..Behaviour::named(NAME)
    };
    let mut driver = scene.node.behaving(NAME, behaviour.clone());
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    driver.kill();
    scene.reason(NAME, "registered", "not responding");
    driver.restart(behaviour);
    scene
        .registrar
        .wait_driver("it answers again", NAME, SOON, |driver| {
            driver.last_error.is_none()
        });
    let logs = scene.registrar.logs();
    let warned = logs.matches("max_volumes_per_node is -1").count();
    assert_eq!(warned, 1, "{logs}");
}

#[test]
fn another_name_than_the_pinned_one_is_refused_with_both_names() {
    let pin = format!("[drivers.{NAME:?}]\nname = \"pinned.name\"\n");
    let scene = setup().drivers(&[OTHER]).more(&pin).started();
    let _healthy = scene.node.driver(OTHER);
    let mut driver = scene.node.driver(NAME);
    let words = format!("calls itself \"{NAME}\", but the configuration pins \"pinned.name\"");
    scene.reason(NAME, "waiting-for-driver", &words);
    assert!(is_nothing(&scene.node.link(NAME)));
    scene.wait_published(OTHER);
    driver.restart(Behaviour::named("pinned.name"));
    scene.wait_published("pinned.name");
}

#[test]
fn a_driver_is_published_once_it_has_a_node_id() {
    let scene = setup().more(QUICK).started();
    let mut driver = scene.node.behaving(
        NAME,
        Behaviour {
            node_get_info: Answer::Fails(Code::Unavailable),
            ..Behaviour::named(NAME)
        },
    );
    let words = "NodeGetInfo failed: Unavailable";
    scene.reason(NAME, "waiting-for-driver", words);
    assert!(is_nothing(&scene.node.link(NAME)));
    // On the same socket: only a retry finds out.
    driver.change(Behaviour::named(NAME));
    scene.wait_published(NAME);
}

#[test]
fn garbage_in_place_of_http2_is_reported_and_disturbs_no_other_driver() {
    let scene = setup().drivers(&[NAME, OTHER]).more(QUICK).started();
    let babbler = RawListener::saying(
        &scene.node.csi_socket(NAME),
        b"220 mail.example ESMTP ready, how may I help you?\r\n",
    );
    let kubelet = scene.node.kubelet();
    let _healthy = scene.node.driver(OTHER);
    kubelet.wait_registered(OTHER, SOON);
    eventually("it is asked again", SOON, || babbler.met() > 2);
    let status = scene.reason(
        NAME,
        "waiting-for-driver",
        "broke before it answered: http2 error",
    );
    assert_eq!(status.name, None);
}

/// An HTTP/2 server's SETTINGS.
const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
/// PING, which wants an answer each time.
const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0nonsense";

#[test]
fn a_driver_that_floods_the_registrar_does_not_delay_other_drivers() {
    let scene = setup().drivers(&[NAME, OTHER]).more(QUICK).started();
    scene.phase(NAME, "waiting-for-driver");
    let before = scene.registrar.rss_kb();
    let _flood = RawListener::flooding(&scene.node.csi_socket(NAME), SETTINGS, PING);
    let kubelet = scene.node.kubelet();
    scene.reason(NAME, "waiting-for-driver", "");
    let _healthy = scene.node.driver(OTHER);
    kubelet.wait_registered(OTHER, SOON);
    scene.phase(OTHER, "registered");
    never("memory grows", Duration::from_secs(2), || {
        scene.registrar.rss_kb() > before + 16 * 1024
    });
}

#[test]
fn a_driver_that_answers_and_hangs_up_each_time_is_not_asked_at_full_speed() {
    let scene = setup().drivers(&[NAME, OTHER]).started();
    let behind = scene.node.behaving("behind", Behaviour::named(NAME));
    let fickle = RawListener::fickle(&scene.node.csi_socket(NAME), behind.path().to_owned());
    let kubelet = scene.node.kubelet();
    let _healthy = scene.node.driver(OTHER);
    kubelet.wait_registered(OTHER, SOON);
    eventually("it is asked", SOON, || behind.called(Call::NodeGetInfo) > 2);
    let (watched, before) = (Duration::from_secs(4), fickle.met());
    never("it is asked at full speed", watched, || {
        fickle.met() > before + 40
    });
}
