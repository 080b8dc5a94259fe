//! state.json: what a release wrote is taken up without an event for the kubelet, also if it has fields that the
//! program does not know.

use std::fs;

use bed::DriverStatus;
use bed::kubelet::Counts;
use bed::scene::{NAME, OTHER, QUIET};
use bed::stays;
use serde_json::Value;

use crate::moment::Moment;
use crate::node::{FOUND, MISSING, Node, STOPPED};
use crate::release::Release;

/// What a later version may add: fields to each object, and words to those that have few.
fn later(value: &mut Value, maps: &[&str], path: &str) {
    let Value::Object(fields) = value else { return };
    // A time of the standard library, which no version extends.
    if path.ends_with(".born") {
        return;
    }
    for (name, value) in fields.iter_mut() {
        let below = if maps.contains(&path) { "KEY" } else { name };
        later(value, maps, &format!("{path}.{below}"));
        if name == "origin" {
            *value = "a-later-origin".into();
        }
    }
    if !maps.contains(&path) {
        let unknown = serde_json::json!({"of": ["a", 1, null]});
        fields.insert("a_later_field".to_owned(), unknown);
    }
}

/// The objects of state.json whose keys are paths, ids and labels.
pub(crate) const MAPS: [&str; 3] = [
    "start_sockets",
    "drivers",
    "drivers.KEY.registration.answer.topology",
];

/// A daemon starts with this state, and neither the kubelet nor a driver's history changes.
fn is_taken_up(release: &Release, change: impl FnOnce(&mut Value)) {
    let mut node = Node::registered();
    node.settle();
    node.kill();
    let mark = node.scene.kubelet.mark();
    let moment = Moment {
        root: node.scene.node.root(),
        kubelet: node.scene.kubelet.pid().unwrap(),
    };
    let mut state = moment.fit_state(&release.text("state.json"));
    let recorded = state.clone();
    change(&mut state);
    fs::write(node.state(), state.to_string()).unwrap();
    node.scene.registrar.start();
    for (id, phase) in [
        (NAME, "registered"),
        (OTHER, "withdrawn"),
        (FOUND, "registered"),
        (STOPPED, "registered"),
        (MISSING, "waiting-for-driver"),
    ] {
        let driver = node.scene.phase(id, phase);
        assert_eq!(history(&driver), recorded_history(&recorded, id), "{id}");
    }
    // What verify found.
    let status = node.scene.registrar.status().unwrap();
    for (id, in_cluster) in [(NAME, Some(true)), (FOUND, Some(false)), (STOPPED, None)] {
        assert_eq!(status.driver(id).unwrap().in_cluster, in_cluster, "{id}");
    }
    stays("the kubelet does nothing", QUIET, || {
        let counts = node.scene.kubelet.counts_since(mark);
        (counts == Counts::default())
            .then_some(())
            .ok_or(format!("{counts:?}"))
    });
    let logs = node.scene.registrar.logs();
    assert!(!logs.contains("the state file is not trusted"), "{logs}");
    // A driver that was withdrawn by hand can be published again.
    node.scene.registrar.succeed(&["publish", OTHER]);
    node.wait_registered(OTHER);
}

/// What a restart does not change: since when, and how often.
fn history(driver: &DriverStatus) -> (String, [u64; 4]) {
    let counts = [
        driver.registrations,
        driver.rejections,
        driver.announcements,
        driver.link_repairs,
    ];
    (driver.since.clone(), counts)
}

fn recorded_history(state: &Value, id: &str) -> (String, [u64; 4]) {
    let shown = &state["drivers"][id]["shown"];
    let count = |name: &str| shown["counts"][name].as_u64().unwrap();
    let counts = [
        "registrations",
        "rejections",
        "announcements",
        "link_repairs",
    ]
    .map(count);
    (shown["since"].as_str().unwrap().to_owned(), counts)
}

#[test]
fn the_state_of_a_release_is_taken_up_and_the_kubelet_notices_nothing() {
    for release in Release::recorded() {
        is_taken_up(&release, |_state| {});
    }
}

/// There is no later version to test with. A release must ignore what it does not know, so that the way back to it
/// costs nothing either.
#[test]
fn a_state_with_unknown_fields_is_taken_up_and_the_kubelet_notices_nothing() {
    let maps = MAPS.map(|path| format!(".{path}"));
    let maps = maps.each_ref().map(|path| &**path);
    is_taken_up(Release::recorded().last().unwrap(), |state| {
        later(state, &maps, "");
    });
}
