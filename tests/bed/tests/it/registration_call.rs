//! The registration as kubelet.md describes it: refusals, retries, back-off, collisions, Notify.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::time::Duration;

use bed::driver::{Answer, Behaviour, Call};
use bed::kubelet::{Counts, Event};
use bed::scene::{NAME, SOON};
use bed::{Release, Timing, eventually};

use crate::scene::{ROUNDS, Scene, remove};
use crate::stand_in::{NotifyAnswer, StandIn};

fn rejections(scene: &Scene) -> usize {
    scene.kubelet.counts_since(Default::default()).rejections
}

#[test]
fn a_refusal_in_validation_is_retried_by_every_release() {
    for release in Release::ALL {
        let scene = Scene::new(release);
        scene
            .kubelet
            .fault(|faults| faults.refuse = Some("not today".to_owned()));
        scene.make_link();
        scene.wait_told("two refusals", 2);
        let told = &scene.registrar.told()[0];
        assert!(!told.plugin_registered && told.error.ends_with("not today"));
        scene.kubelet.fault(|faults| faults.refuse = None);
        scene.kubelet.wait_registered(NAME, SOON);
    }
}

#[test]
fn versions_and_type_are_validated() {
    let scene = Scene::new(Release::V1_36);
    scene
        .registrar
        .change_info(|info| info.supported_versions = vec!["2.0.0".to_owned()]);
    scene.make_link();
    scene.wait_told("the version is refused", 1);
    let error = scene.registrar.told()[0].error.clone();
    assert!(error.contains("None of the versions specified"), "{error}");
    scene.registrar.change_info(|info| {
        info.supported_versions = vec!["1.0.0".to_owned()];
        info.r#type = "DevicePlugin".to_owned();
    });
    let wrong_type = "no handler registered for plugin type: DevicePlugin";
    eventually("the type is refused", SOON, || {
        let told = scene.registrar.told();
        told.iter().any(|told| told.error.contains(wrong_type))
    });
}

#[test]
fn back_off_doubles_and_persists_when_the_link_is_recreated() {
    let mut scene = Scene::new(Release::V1_35);
    let mut slow = scene.node.kubelet_settings(Release::V1_35);
    slow.timing.backoff_initial = Duration::from_millis(400);
    scene.kubelet.restart_as(slow);
    scene
        .kubelet
        .fault(|faults| faults.refuse = Some("no".to_owned()));
    scene.make_link();
    let rejected = || {
        let records = scene.kubelet.records().into_iter();
        records
            .filter(|record| matches!(record.event, Event::Rejected { .. }))
            .map(|record| record.at)
            .collect::<Vec<_>>()
    };
    let times = eventually("four refusals", SOON, || {
        let times = rejected();
        (times.len() >= 4).then_some(times)
    });
    // Each rounded up to the next round of the loop.
    for (pair, least) in times.windows(2).zip([400, 800, 1600]) {
        assert!(
            pair[1] - pair[0] > Duration::from_millis(least),
            "{times:?}"
        );
    }
    // The back-off is 3.2 s now: a new link of that name waits for it, a link of another name does not.
    scene.kubelet.fault(|faults| faults.refuse = None);
    scene.rename_link_over();
    let mark = scene.kubelet.mark();
    scene.nothing_since(mark);
    remove(&scene.link());
    let other = scene.node.plugins_registry().join("other-reg.sock");
    symlink(&scene.registrar.path, other).unwrap();
    let registered = scene.kubelet.wait_for("register", mark, SOON, |event| {
        matches!(event, Event::Register { .. })
    });
    assert!(registered.at - times[3] < Duration::from_millis(3200));
}

#[test]
fn back_off_also_holds_up_a_deregistration() {
    let mut scene = Scene::new(Release::V1_35);
    // Before 1.36 an error from Notify(true) leaves the driver registered and the path failed.
    scene.registrar.answer_notify(NotifyAnswer::Error);
    let mut slow = scene.node.kubelet_settings(Release::V1_35);
    slow.timing.backoff_initial = Duration::from_secs(2);
    scene.kubelet.restart_as(slow);
    scene.make_link();
    scene.wait_told("Notify", 1);
    remove(&scene.link());
    bed::stays(
        "the driver is registered",
        Duration::from_millis(600),
        || scene.kubelet.registered().contains_key(NAME),
    );
    scene.kubelet.wait_deregistered(NAME, SOON);
}

#[test]
fn a_failure_after_get_info_is_retried_from_1_36_on_only() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        scene.driver.change(Behaviour {
            node_get_info: Answer::Fails(tonic::Code::Internal),
            ..Behaviour::named(NAME)
        });
        scene.make_link();
        scene.wait_told("Notify(false)", 1);
        assert!(scene.registrar.told()[0].error.contains("code = Internal"));
        if release == Release::V1_36 {
            scene.wait_told("Notify(false) again", 2);
            scene.driver.change(Behaviour::named(NAME));
        } else {
            scene.driver.change(Behaviour::named(NAME));
            let mark = scene.kubelet.mark();
            scene.nothing_since(mark);
            assert_eq!(scene.driver.called(Call::NodeGetInfo), 1);
            // The kubelet de-registers without effect, because it still has the path.
            scene.rename_link_over();
        }
        scene.kubelet.wait_registered(NAME, SOON);
        let counts = scene.kubelet.counts_since(Default::default());
        assert_eq!((counts.registrations, counts.deregistrations), (1, 0));
        assert_eq!(counts.api_writes(), 2);
    }
}

#[test]
fn a_failing_api_server_is_such_a_failure() {
    for release in [Release::V1_35, Release::V1_36] {
        let scene = Scene::new(release);
        scene
            .kubelet
            .fault(|faults| faults.fail_api_writes = Some("etcd is away".to_owned()));
        scene.make_link();
        scene.wait_told("Notify(false)", 1);
        assert!(scene.registrar.told()[0].error.contains("etcd is away"));
        scene.kubelet.fault(|faults| faults.fail_api_writes = None);
        if release == Release::V1_36 {
            scene.kubelet.wait_registered(NAME, SOON);
        } else {
            bed::never("it registers", ROUNDS, || {
                !scene.kubelet.registered().is_empty()
            });
        }
    }
}

#[test]
fn an_empty_node_id_is_refused() {
    let mut scene = Scene::new(Release::V1_36);
    scene.driver.change(Behaviour {
        node_id: String::new(),
        ..Behaviour::named(NAME)
    });
    scene.make_link();
    scene.wait_told("Notify(false)", 1);
    let error = scene.registrar.told()[0].error.clone();
    assert!(error.contains("driverNodeID must not be empty"), "{error}");
}

#[test]
fn an_error_from_notify_makes_1_36_start_over_and_no_other() {
    for release in Release::ALL {
        let scene = Scene::new(release);
        scene.registrar.answer_notify(NotifyAnswer::Error);
        scene.make_link();
        if release == Release::V1_36 {
            scene.wait_told("Notify again", 2);
            scene.registrar.answer_notify(NotifyAnswer::Ok);
            eventually("it stays registered", SOON, || {
                let records = scene.kubelet.records();
                matches!(records.last()?.event, Event::Notified { error: None, .. }).then_some(())
            });
            let counts = scene.kubelet.counts_since(Default::default());
            assert_eq!(counts.registrations, counts.deregistrations + 1);
            assert!(counts.deregistrations >= 2);
        } else {
            scene.kubelet.wait_registered(NAME, SOON);
            scene.wait_told("Notify", 1);
            bed::stays("it stays registered, told once", ROUNDS, || {
                scene.kubelet.registered().contains_key(NAME) && scene.registrar.told().len() == 1
            });
        }
    }
}

#[test]
fn a_late_answer_to_notify_is_an_error() {
    let mut scene = Scene::new(Release::V1_36);
    let mut settings = scene.node.kubelet_settings(Release::V1_36);
    settings.timing.notify = Duration::from_millis(300);
    scene.kubelet.restart_as(settings);
    scene
        .registrar
        .answer_notify(NotifyAnswer::After(Duration::from_secs(60)));
    scene.make_link();
    let mark = Default::default();
    scene.kubelet.wait_for("let go", mark, SOON, |event| {
        matches!(
            event,
            Event::Deregister {
                registered: true,
                ..
            }
        )
    });
    scene.registrar.answer_notify(NotifyAnswer::Ok);
    scene.kubelet.wait_registered(NAME, SOON);
}

#[test]
fn a_lost_notify_is_never_heard_of_before_1_36() {
    for release in Release::ALL {
        let scene = Scene::new(release);
        scene.kubelet.fault(|faults| faults.lose_notify = 1);
        scene.make_link();
        if release == Release::V1_36 {
            scene.wait_told("Notify at the second try", 1);
            let counts = scene.kubelet.counts_since(Default::default());
            assert_eq!((counts.registrations, counts.deregistrations), (2, 1));
        } else {
            scene.kubelet.wait_registered(NAME, SOON);
            bed::never("it is told", ROUNDS, || !scene.registrar.told().is_empty());
        }
    }
}

/// Stops the registrar between GetInfo and Notify, starts it again soon, and returns the result of
/// Notify.
fn ended_in_between(release: Release, redial: Duration) -> Option<String> {
    let mut scene = Scene::new(release);
    let mut settings = scene.kubelet.settings().clone();
    settings.timing.redial = redial;
    scene.kubelet.restart_as(settings);
    scene
        .kubelet
        .fault(|faults| faults.delay_after_get_info = Duration::from_secs(1));
    scene.make_link();
    let asked = |event: &Event| matches!(event, Event::Asked { .. });
    let mark = Default::default();
    scene.kubelet.wait_for("ask", mark, SOON, asked);
    scene.registrar.end();
    // Long enough that an immediate attempt is refused.
    std::thread::sleep(Duration::from_millis(100));
    scene.registrar.bind();
    let notified = |event: &Event| matches!(event, Event::Notified { .. });
    match scene.kubelet.wait_for("notify", mark, SOON, notified).event {
        Event::Notified { error, .. } => error,
        _ => unreachable!("wait_for gave another event"),
    }
}

#[test]
fn a_registrar_that_is_back_in_time_hears_the_end() {
    for release in Release::ALL {
        assert_eq!(ended_in_between(release, Duration::from_millis(50)), None);
    }
}

#[test]
fn before_1_35_a_lost_connection_is_restored_after_a_pause_and_not_for_a_call() {
    for release in Release::ALL {
        let error = ended_in_between(release, Duration::from_secs(60));
        assert_eq!(error.is_some(), release == Release::V1_24, "{error:?}");
    }
}

#[test]
fn the_connection_stays_open_between_get_info_and_notify() {
    let scene = Scene::new(Release::V1_36);
    scene
        .kubelet
        .fault(|faults| faults.delay_after_get_info = Duration::from_millis(300));
    scene.make_link();
    scene.wait_told("Notify", 1);
    let records = scene.kubelet.records();
    let at = |wanted: fn(&Event) -> bool| {
        let mut records = records.iter();
        records.find(|record| wanted(&record.event)).unwrap().at
    };
    let asked = at(|event| matches!(event, Event::Asked { .. }));
    let registered = at(|event| matches!(event, Event::Register { .. }));
    assert!(registered - asked >= Duration::from_millis(300));
}

#[test]
fn a_second_socket_with_the_same_name_is_refused() {
    for release in Release::ALL {
        let scene = Scene::registered(release);
        let second = scene.node.registry_dir().join("second.sock");
        let registrar = StandIn::serve(&second, NAME, scene.driver.path());
        let link = scene.node.plugins_registry().join("second-reg.sock");
        symlink(&second, &link).unwrap();
        let error = eventually("a refusal", SOON, || registrar.told().pop()).error;
        let words = "Another driver with the same name is already registered";
        assert!(error.contains(words), "{error}");

        // Removing the refused link has no effect.
        remove(&link);
        let mark = scene.kubelet.mark();
        bed::never("it lets go of the first", ROUNDS, || {
            scene.kubelet.counts_since(mark).deregistrations > 0
        });
        // Removing the registered link de-registers the driver.
        remove(&scene.link());
        scene.kubelet.wait_deregistered(NAME, SOON);
    }
}

#[test]
fn another_value_for_a_topology_key_collides_with_the_label() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        let zone = |value| Behaviour::named(NAME).with_topology("topology.test/zone", value);
        scene.driver.change(zone("a"));
        scene.make_link();
        scene.kubelet.wait_registered(NAME, SOON);

        scene.driver.change(zone("b"));
        scene.rename_link_over();
        eventually("the collision", SOON, || rejections(&scene) > 0);
        eventually("the refusal has come", SOON, || {
            scene.registrar.told().len() > 1
        });
        let error = scene.registrar.told()[1].error.clone();
        let words = r#"detected topology value collision: driver reported "topology.test/zone":"b" but existing label is "topology.test/zone":"a""#;
        assert!(error.contains(words), "{error}");
        assert!(scene.kubelet.registered().is_empty());

        scene.kubelet.remove_label("topology.test/zone");
        if release != Release::V1_36 {
            scene.rename_link_over();
        }
        scene.kubelet.wait_registered(NAME, SOON);
        let labels = scene.kubelet.cluster().labels;
        let expected = [("topology.test/zone".to_owned(), "b".to_owned())];
        assert_eq!(labels, BTreeMap::from(expected));
    }
}

#[test]
fn a_socket_that_does_not_speak_is_tried_again() {
    let scene = Scene::new(Release::V1_36);
    let path = scene.node.registry_dir().join("mute.sock");
    let _mute = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let link = scene.node.plugins_registry().join("mute-reg.sock");
    symlink(&path, &link).unwrap();
    scene.kubelet.wait_for(
        "give up on GetInfo",
        Default::default(),
        SOON,
        |event| matches!(event, Event::ErrorLine { text } if text.contains("RPC GetInfo")),
    );
}

#[test]
fn real_times_are_the_default() {
    let real = Timing::default();
    assert_eq!(real.loop_interval, Duration::from_secs(1));
    assert_eq!(real.backoff_max, Duration::from_secs(122));
    assert_eq!(Counts::default().api_writes(), 0);
}
