//! Several drivers in one process.

use std::collections::BTreeSet;
use std::fs;

use bed::kubelet::Event;
use bed::scene::{KEEP, NAME, OTHER, SOON, in_both_layouts, nothing_since};
use bed::{Behaviour, RawListener, eventually, identity};

use crate::setup;

const SHARED: &str = "shared.name";

#[test]
fn every_driver_is_registered_by_itself() {
    in_both_layouts(|layout| {
        let ids: Vec<String> = (0..5).map(|n| format!("driver-{n}.test")).collect();
        let configured: Vec<&str> = ids.iter().map(String::as_str).collect();
        let scene = setup().layout(layout).drivers(&configured).started();
        let kubelet = scene.node.kubelet();
        let mut drivers: Vec<_> = ids.iter().map(|id| scene.node.driver(id)).collect();
        for id in &ids {
            kubelet.wait_registered(id, SOON);
            scene.phase(id, "registered");
        }
        // When one driver stops, the cluster sees no change, neither for it nor for the others.
        let mark = kubelet.mark();
        drivers.pop().unwrap().stop();
        scene.reason(&ids[4], "registered", "registration retained");
        nothing_since(&kubelet, mark);
        let names: BTreeSet<String> = kubelet.registered().into_keys().collect();
        assert_eq!(names, ids.into_iter().collect());
    });
}

#[test]
fn of_two_drivers_with_one_name_the_second_waits_and_takes_over_when_the_first_is_gone() {
    in_both_layouts(|layout| {
        let scene = setup().layout(layout).drivers(&[NAME, OTHER]).started();
        let mut first = scene.node.behaving(NAME, Behaviour::named(SHARED));
        let endpoint = scene.wait_published(SHARED).endpoint;
        assert_eq!(endpoint, first.path().display().to_string());
        let second = scene.node.behaving(OTHER, Behaviour::named(SHARED));
        let words = format!("the driver \"{NAME}\" has the same name");
        scene.reason(OTHER, "conflict", &words);
        assert_eq!(scene.wait_published(SHARED).endpoint, endpoint);
        first.stop();
        scene.phase(OTHER, "waiting-for-kubelet");
        let endpoint = scene.wait_published(SHARED).endpoint;
        assert_eq!(endpoint, second.path().display().to_string());
        scene.phase(NAME, "waiting-for-driver");
        // And the other way round.
        first.restart(Behaviour::named(SHARED));
        let words = format!("the driver \"{OTHER}\" has the same name");
        scene.reason(NAME, "conflict", &words);
        drop(second);
        scene.phase(NAME, "waiting-for-kubelet");
        scene.wait_published(SHARED);
    });
}

#[test]
fn a_registered_driver_that_stops_leaves_its_name_to_a_driver_that_answers() {
    in_both_layouts(|layout| {
        let scene = setup().layout(layout).drivers(&[NAME, OTHER]).started();
        let kubelet = scene.node.kubelet();
        let mut first = scene.node.behaving(NAME, Behaviour::named(SHARED));
        kubelet.wait_registered(SHARED, SOON);
        scene.phase(NAME, "registered");
        let second = scene.node.behaving(OTHER, Behaviour::named(SHARED));
        scene.phase(OTHER, "conflict");
        let mark = kubelet.mark();
        first.stop();
        let taken = second.path().display().to_string();
        eventually("the endpoint of the second", SOON, || {
            kubelet.registered().get(SHARED) == Some(&taken)
        });
        scene.phase(OTHER, "registered");
        scene.phase(NAME, "waiting-for-driver");
        let counts = kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    });
}

/// A withdrawn driver does not take over the name that the other driver gives up.
#[test]
fn a_driver_that_is_withdrawn_by_hand_takes_nothing_over() {
    let scene = setup().drivers(&[NAME, OTHER]).started();
    let kubelet = scene.node.kubelet();
    let mut first = scene.node.behaving(NAME, Behaviour::named(SHARED));
    scene.phase(NAME, "registered");
    let _second = scene.node.behaving(OTHER, Behaviour::named(SHARED));
    scene.phase(OTHER, "conflict");
    scene.registrar.succeed(&["withdraw", OTHER]);
    let mark = kubelet.mark();
    first.stop();
    scene.reason(NAME, "registered", "not responding");
    nothing_since(&kubelet, mark);
    scene.registrar.succeed(&["publish", OTHER]);
    scene.phase(OTHER, "registered");
}

#[test]
fn a_driver_that_is_taken_off_the_configuration_leaves_its_name_to_the_next() {
    let scene = setup().drivers(&[NAME, OTHER]).started();
    let kubelet = scene.node.kubelet();
    let _first = scene.node.behaving(NAME, Behaviour::named(SHARED));
    kubelet.wait_registered(SHARED, SOON);
    let second = scene.node.behaving(OTHER, Behaviour::named(SHARED));
    scene.phase(OTHER, "conflict");
    scene.node.write_default_config(&[OTHER], "");
    scene.registrar.succeed(&["reload"]);
    scene.phase(OTHER, "registered");
    let endpoint = kubelet.wait_registered(SHARED, SOON);
    assert_eq!(endpoint, second.path().display().to_string());
}

#[test]
fn a_driver_that_changes_its_name_to_a_siblings_waits_for_it() {
    let scene = setup().drivers(&[NAME, OTHER]).started();
    let _first = scene.node.driver(NAME);
    let mut second = scene.node.driver(OTHER);
    scene.wait_published(NAME);
    scene.wait_published(OTHER);
    second.restart(Behaviour::named(NAME));
    scene.phase(OTHER, "conflict");
    scene.wait_no_link(OTHER);
    scene.wait_published(NAME);
    second.restart(Behaviour::named(OTHER));
    scene.wait_published(OTHER);
}

/// The first driver keeps the link, whatever the second driver does with the name.
#[test]
fn a_waiting_driver_never_disturbs_the_driver_that_has_the_name() {
    in_both_layouts(|layout| {
        let scene = setup().layout(layout).drivers(&[NAME, OTHER]).started();
        let kubelet = scene.node.kubelet();
        let _first = scene.node.behaving(NAME, Behaviour::named(SHARED));
        kubelet.wait_registered(SHARED, SOON);
        scene.phase(NAME, "registered");
        let mark = kubelet.mark();
        let link = identity(&scene.node.link(SHARED));
        let mut second = scene.node.behaving(OTHER, Behaviour::named(SHARED));
        scene.phase(OTHER, "conflict");
        second.restart(Behaviour::named(OTHER));
        kubelet.wait_registered(OTHER, SOON);
        second.restart(Behaviour::named(SHARED));
        scene.phase(OTHER, "conflict");
        second.stop();
        scene.phase(OTHER, "waiting-for-driver");
        second.restart(Behaviour::named(SHARED));
        scene.phase(OTHER, "conflict");
        scene.node.write_default_config(&[NAME], "");
        scene.registrar.succeed(&["reload"]);
        assert_eq!(identity(&scene.node.link(SHARED)), link);
        scene.phase(NAME, "registered");
        kubelet.wait_deregistered(OTHER, SOON);
        let touched = kubelet.events_since(mark, |event| {
            matches!(event, Event::Register { name, .. } | Event::Deregister { name, .. }
                if name == SHARED)
        });
        assert!(touched.is_empty(), "{touched:?}");
    });
}

/// By its id, the waiting driver would come first.
#[test]
fn a_restart_leaves_a_shared_name_with_the_driver_that_has_it() {
    let mut scene = setup().drivers(&[NAME, OTHER]).more(KEEP).started();
    let kubelet = scene.node.kubelet();
    let first = scene.node.behaving(OTHER, Behaviour::named(SHARED));
    kubelet.wait_registered(SHARED, SOON);
    scene.phase(OTHER, "registered");
    let mut second = scene.node.behaving(NAME, Behaviour::named(SHARED));
    scene.phase(NAME, "conflict");
    let (mark, link) = (kubelet.mark(), identity(&scene.node.link(SHARED)));
    for _ in 0..2 {
        scene.registrar.restart();
        scene.phase(OTHER, "registered");
        assert_eq!(identity(&scene.node.link(SHARED)), link);
        nothing_since(&kubelet, mark);
        // The second time, the driver is down.
        second.stop();
    }
    assert_eq!(
        kubelet.registered()[SHARED],
        first.path().display().to_string()
    );
}

/// The driver has no link or socket to give up, only the name.
#[test]
fn a_driver_whose_place_a_stranger_has_does_not_keep_its_name_from_another() {
    let scene = setup().drivers(&[NAME, OTHER]).started();
    let mut first = scene.node.behaving(NAME, Behaviour::named(SHARED));
    scene.wait_published(SHARED);
    let socket = scene.node.reg_socket(SHARED);
    let stranger = RawListener::instead(&socket);
    scene.reason(NAME, "conflict", "serves");
    first.stop();
    scene.phase(NAME, "waiting-for-driver");
    let second = scene.node.behaving(OTHER, Behaviour::named(SHARED));
    scene.reason(OTHER, "conflict", "serves");
    drop(stranger);
    let endpoint = scene.wait_published(SHARED).endpoint;
    assert_eq!(endpoint, second.path().display().to_string());
    scene.phase(OTHER, "waiting-for-kubelet");
}

/// Whichever of the two looks at the free path first.
#[test]
fn a_registered_driver_whose_place_a_stranger_had_keeps_its_name() {
    for (holder, waiting) in [(NAME, OTHER), (OTHER, NAME)] {
        let scene = setup().drivers(&[NAME, OTHER]).started();
        let kubelet = scene.node.kubelet();
        let first = scene.node.behaving(holder, Behaviour::named(SHARED));
        kubelet.wait_registered(SHARED, SOON);
        scene.phase(holder, "registered");
        let _second = scene.node.behaving(waiting, Behaviour::named(SHARED));
        scene.reason(waiting, "conflict", holder);
        let mark = kubelet.mark();
        let socket = scene.node.reg_socket(SHARED);
        let stranger = RawListener::instead(&socket);
        scene.reason(holder, "conflict", "serves");
        drop(stranger);
        fs::remove_file(&socket).unwrap();
        scene.phase(holder, "registered");
        let endpoint = scene.wait_published(SHARED).endpoint;
        assert_eq!(endpoint, first.path().display().to_string());
        nothing_since(&kubelet, mark);
        scene.reason(waiting, "conflict", holder);
    }
}
