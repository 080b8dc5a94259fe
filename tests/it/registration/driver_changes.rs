//! A driver that changes: which changes reach the cluster, and which only the status shows.

use std::time::Duration;

use bed::kubelet::Counts;
use bed::scene::{KEEP, NAME, SOON, for_each_release, reason};
use bed::{Behaviour, Release, eventually, stays};

use crate::setup;

/// Longer than the kubelet takes to notice anything.
const KUBELET_ROUNDS: Duration = Duration::from_secs(2);

fn with_limit(max_volumes: i64) -> Behaviour {
    Behaviour {
        max_volumes,
        ..Behaviour::named(NAME)
    }
}

fn on_node(node_id: &str) -> Behaviour {
    Behaviour {
        node_id: node_id.to_owned(),
        ..Behaviour::named(NAME)
    }
}

/// An event after which the registrar asks a driver that did not restart.
#[derive(Clone, Copy, Debug)]
enum Asked {
    OurRestart,
    Reload,
}

#[test]
fn a_limit_that_changes_while_the_driver_runs_is_shown_and_not_announced() {
    for_each_release(|release| {
        let mut scene = setup().more(KEEP).kubelet(release).registered();
        let mark = scene.kubelet.mark();
        for (limit, asked) in [(5, Asked::OurRestart), (7, Asked::Reload)] {
            scene.driver.change(with_limit(limit));
            match asked {
                Asked::OurRestart => scene.registrar.restart(),
                Asked::Reload => {
                    let more = format!("{KEEP}[defaults]\nrequest_timeout = \"4s\"\n");
                    scene.node.write_default_config(&[NAME], &more);
                    scene.registrar.succeed(&["reload"]);
                }
            }
            let words =
                format!("a volume limit of {limit}, and was registered with no volume limit");
            scene.wait_reason(&words);
            stays("registered", KUBELET_ROUNDS, || {
                scene.kubelet.counts_since(mark) == Counts::default()
            });
        }
        // When the driver restarts with that limit, the cluster gets it.
        scene.driver.restart(with_limit(7));
        eventually("announced", SOON, || {
            scene.kubelet.counts_since(mark).registrations == 1
        });
        scene.ends_registered(mark, 1, 1);
        scene.wait_driver("nothing more to say", |driver| {
            driver.phase == "registered" && !reason(driver).contains("limit")
        });
    });
}

/// Without a pace, each restart of the driver would cost the cluster a registration.
#[test]
fn a_driver_that_changes_its_node_id_all_the_time_is_announced_once_and_then_paced() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_36).registered();
    let mark = scene.kubelet.mark();
    scene.driver.restart(on_node("node-2"));
    eventually("announced", SOON, || {
        scene.kubelet.counts_since(mark).registrations == 1
    });
    scene.wait_registered();
    for round in 0..10 {
        scene
            .driver
            .restart(on_node(&format!("node-{}", 3 + round % 2)));
        let words = format!("to \"node-{}\"; the next announcement waits", 3 + round % 2);
        scene.wait_reason(&words);
    }
    let counts = scene.settled(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    // An operator who cannot wait for a minute runs reannounce.
    scene.registrar.succeed(&["reannounce", NAME]);
    eventually("the last word", SOON, || {
        scene
            .kubelet
            .cluster()
            .node_ids
            .get(NAME)
            .is_some_and(|id| id == "node-4")
    });
}

#[test]
fn a_driver_that_is_down_is_not_announced_by_hand() {
    let mut scene = setup().more(KEEP).kubelet(Release::V1_35).registered();
    let mark = scene.kubelet.mark();
    scene.lose_driver();
    let output = scene.registrar.run_cli(["reannounce", NAME]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let words = "does not answer, and an announcement would take it off the node";
    assert!(said.contains(words), "{said}");
    scene.driver.restart(Behaviour::named(NAME));
    scene.ends_registered(mark, 0, 0);
}
