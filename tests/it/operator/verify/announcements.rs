//! `verify --repair`: what is announced, and what is left alone.

use std::fs;
use std::time::Duration;

use bed::api_server::Fault;
use bed::kubelet::Counts;
use bed::scene::{NAME, OTHER, SOON, reason};
use bed::{Process, eventually};
use serde_json::json;

use super::{NODE, Stage, Verdict, ZONE};
use crate::security::victim::mode;

/// Nothing was announced, and the driver is still missing.
#[track_caller]
fn left_alone(stage: &Stage, verdict: &Verdict, why: &str) {
    verdict.ends_with(1).says(why);
    assert_eq!(verdict.report["drivers"][0]["repaired"], false);
    assert_eq!(stage.announcements(), 1);
}

/// Waits until the first look has missed a driver in the server's cache, and then without it.
#[track_caller]
fn wait_first_look(stage: &Stage) {
    eventually("the daemon has the first report", SOON, || {
        stage.driver().in_cluster == Some(false)
    });
}

/// The requests for the Node so far.
fn looks(stage: &Stage) -> usize {
    let requests = stage.server.requests();
    let nodes = requests
        .iter()
        .filter(|request| request.route().starts_with("/api/v1/nodes/"));
    nodes.count()
}

#[test]
fn a_deleted_csinode_is_found_announced_and_listed_again_and_the_repair_is_remembered() {
    let stage = Stage::settled();
    let mark = stage.scene.kubelet.mark();
    stage.change(|state| state.csi_node = None);
    let verdict = stage.verify_mirrored(&["--repair"]);
    verdict
        .ends_with(0)
        .says("announced")
        .says("in the cluster again");
    assert_eq!(
        verdict.report["drivers"],
        json!([{"name": NAME, "agrees": true, "repaired": true, "differences": []}])
    );
    let driver = stage.driver();
    assert_eq!((driver.announcements, driver.registrations), (2, 2));
    assert_eq!(driver.in_cluster, Some(true));
    let counts = stage.scene.kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    let logs = stage.scene.registrar.logs();
    assert!(logs.contains("the cluster had lost the driver"), "{logs}");
    for file in ["repairs.json", "repairs.lock"] {
        assert_eq!(
            mode(&stage.scene.node.runtime_dir().join(file)),
            0o600,
            "{file}"
        );
    }

    // Nothing is missing, so nothing is announced.
    let verdict = stage.verify(&["--repair"]);
    verdict.ends_with(0);
    assert_eq!(verdict.report["drivers"][0]["repaired"], false);
    // It is missing again within ten minutes.
    let mut stage = stage;
    stage.settle();
    stage.change(|state| state.unlist(NAME));
    let verdict = stage.verify(&["--repair"]);
    verdict
        .ends_with(1)
        .says("it was announced not long ago")
        .says("in 9m");
    let driver = stage.driver();
    assert_eq!((driver.announcements, driver.in_cluster), (2, Some(false)));
}

#[test]
fn another_node_id_is_announced_and_only_for_its_driver() {
    let mut stage = Stage::set();
    let registrar = &stage.scene.registrar;
    let config = stage.scene.node.default_config(&[NAME, OTHER]);
    stage
        .scene
        .node
        .write_config(&format!("{config}\n{}", bed::scene::KEEP));
    registrar.succeed(&["reload"]);
    let _other = stage.scene.node.driver(OTHER);
    stage.scene.kubelet.wait_registered(OTHER, SOON);
    registrar.wait_phase(OTHER, "registered", SOON);
    stage.settle();
    stage.restore();
    stage.change(|state| state.change_listed(OTHER, |listed| listed["nodeID"] = "id-9".into()));
    let verdict = stage.verify_mirrored(&["--repair"]);
    verdict.ends_with(0);
    let repaired = |index: usize| verdict.report["drivers"][index]["repaired"].clone();
    assert_eq!((repaired(0), repaired(1)), (json!(false), json!(true)));
    let status = stage.scene.registrar.status().unwrap();
    let announcements = |id| status.driver(id).unwrap().announcements;
    assert_eq!((announcements(NAME), announcements(OTHER)), (1, 2));
}

#[test]
fn an_announcement_that_does_not_help_is_told_after_half_a_minute() {
    let stage = Stage::settled();
    stage.change(|state| state.csi_node = None);
    // The kubelet writes to a cluster that loses it at once.
    let verdict = stage.verify(&["--repair"]);
    verdict
        .ends_with(1)
        .says("is still not in the cluster 30 s after the announcement");
    assert_eq!(verdict.report["drivers"][0]["repaired"], false);
    let driver = stage.driver();
    assert_eq!((driver.announcements, driver.in_cluster), (2, Some(false)));
    assert!(
        reason(&driver).contains("but CSINode node-1 does not list it"),
        "{driver:?}"
    );
}

#[test]
fn a_driver_is_left_alone_while_an_announcement_could_not_help() {
    let mut stage = Stage::set();
    stage.change(|state| state.unlist(NAME));
    let verdict = stage.verify(&["--repair"]);
    left_alone(&stage, &verdict, "registered less than a minute ago");
    // It does not wait for a second look.
    assert_eq!(looks(&stage), 2);
    stage.settle();

    stage.restore();
    stage.change(|state| (state.csi_node, state.node) = (None, None));
    let verdict = stage.verify(&["--repair"]);
    left_alone(&stage, &verdict, "the Node object does not exist");

    stage.restore();
    stage.change(|state| {
        state.unlist(NAME);
        state.labels().insert(ZONE.to_owned(), "z2".into());
    });
    let verdict = stage.verify(&["--repair"]);
    left_alone(&stage, &verdict, "remove the label, then reannounce");

    stage.restore();
    // What differs is told, and an announcement is not for this.
    stage.change(|state| {
        state.annotations().clear();
        state.labels().remove(ZONE);
        let keys = json!(["rack"]);
        state.change_listed(NAME, |listed| listed["topologyKeys"] = keys);
    });
    left_alone(&stage, &stage.verify(&["--repair"]), "");

    stage.restore();
    stage.change(|state| state.unlist(NAME));
    stage.scene.driver.kill();
    stage
        .scene
        .reason(NAME, "registered", "driver not responding");
    let verdict = stage.verify(&["--repair"]);
    left_alone(&stage, &verdict, "the driver does not answer");
    assert!(!stage.memory().exists());
}

#[test]
fn a_driver_that_only_the_first_look_misses_is_not_announced() {
    let stage = Stage::settled();
    stage.change(|state| state.unlist(NAME));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_first_look(&stage);
            stage.restore();
        });
        let verdict = stage.verify(&["--repair"]);
        verdict.ends_with(0);
        assert_eq!(verdict.report["drivers"][0]["repaired"], false);
    });
    assert_eq!(looks(&stage), 3);
    assert_eq!(stage.announcements(), 1);
}

#[test]
fn a_registration_that_began_between_the_two_looks_is_not_announced() {
    let stage = Stage::settled();
    stage.change(|state| state.unlist(NAME));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_first_look(&stage);
            stage.scene.registrar.succeed(&["reannounce", NAME]);
        });
        stage
            .verify(&["--repair"])
            .ends_with(1)
            .says("is not announced");
    });
    // Only the one by hand.
    assert_eq!(stage.announcements(), 2);
}

#[test]
fn a_server_that_fails_between_the_two_looks_ends_the_repair() {
    let stage = Stage::settled();
    stage.change(|state| state.unlist(NAME));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_first_look(&stage);
            stage.server.fault("/", Fault::Status(500));
        });
        stage.verify(&["--repair", "--timeout", "2s"]).ends_with(69);
    });
    assert_eq!(stage.announcements(), 1);
    assert!(!stage.memory().exists());
}

#[test]
fn two_runs_at_once_announce_a_driver_once() {
    let stage = Stage::settled();
    stage.change(|state| state.csi_node = None);
    let mark = stage.scene.kubelet.mark();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lock = stage.scene.node.runtime_dir().join("repairs.lock");
            eventually("the first run has the memory", SOON, || lock.exists());
            stage
                .verify(&["--repair"])
                .ends_with(1)
                .says("another verify --repair runs");
        });
        stage.verify_mirrored(&["--repair"]).ends_with(0);
    });
    assert_eq!(stage.announcements(), 2);
    let counts = stage.scene.kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
}

#[test]
fn a_run_that_is_killed_between_the_two_looks_leaves_everything_as_it_was() {
    let stage = Stage::settled();
    stage.change(|state| state.csi_node = None);
    let mark = stage.scene.kubelet.mark();
    let mut run = Process::start(&mut stage.command(&["--repair"]));
    wait_first_look(&stage);
    run.kill();
    assert_eq!(stage.announcements(), 1);
    assert_eq!(stage.scene.kubelet.counts_since(mark), Counts::default());
    // The next run has the memory for itself, and does what the killed one did not.
    stage.verify_mirrored(&["--repair"]).ends_with(0);
    assert_eq!(stage.announcements(), 2);
    let left: Vec<_> = fs::read_dir(stage.scene.node.runtime_dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("repairs"))
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_busy_server_is_asked_again_as_late_as_it_wants() {
    let stage = Stage::set();
    stage
        .server
        .fault(&format!("/api/v1/nodes/{NODE}"), Fault::TooManyRequests(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the first answer was 429", SOON, || looks(&stage) == 1);
            stage.server.heal();
        });
        let start = std::time::Instant::now();
        stage.verify(&[]).ends_with(0);
        assert!(start.elapsed() >= Duration::from_secs(2));
    });
    assert_eq!(looks(&stage), 2);
}
