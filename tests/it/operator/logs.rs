//! The log: one line for each change, as text or as JSON.

use bed::eventually;
use bed::scene::{A_WHILE, NAME, SOON};
use serde_json::Value;

use crate::setup;

#[test]
fn json_lines_have_the_driver_and_its_phase() {
    let scene = setup().more("[log]\ntarget = \"json\"\n").started();
    let _driver = scene.node.driver(NAME);
    scene.wait_published(NAME);
    let found = eventually("the line", SOON, || {
        let logs = scene.registrar.logs();
        let mut lines = logs.lines().map(|line| {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"))
        });
        lines.find(|line| line["phase"] == "waiting-for-kubelet")
    });
    assert_eq!(found["driver"], NAME);
    assert_eq!(found["level"], "INFO");
    let message = found["message"].as_str().unwrap();
    assert!(message.contains("waiting-for-kubelet"), "{message}");
}

#[test]
fn a_failure_that_repeats_is_logged_once() {
    let more = "[defaults]\nretry_max = \"5ms\"\n";
    let scene = setup().more(more).started();
    let _driver = scene.node.behaving(NAME, bed::Behaviour::named("../x"));
    scene.reason(NAME, "waiting-for-driver", "../x");
    bed::never("it is logged again", A_WHILE, || {
        scene.registrar.logs().matches("../x").count() > 1
    });
}
