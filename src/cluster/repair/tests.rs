//! The rules of repairs as a table, and over simulated days.

use super::*;
use crate::cluster::comparison::{Objects, compare, registered};
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};

const NAME: &str = "a.csi";
const START: &str = "2026-01-01T00:00:00Z";

fn driver() -> Driver {
    Driver {
        id: "a".to_owned(),
        name: Some(NAME.to_owned()),
        phase: Phase::Registered.to_string(),
        since: START.to_owned(),
        answering: true,
        registrations: 1,
        registered_node_id: Some("n1".to_owned()),
        ..Driver::default()
    }
}

/// A Node without CSINode: the cluster has lost every driver.
fn lost() -> Objects {
    Objects {
        node: Some(k8s_openapi::api::core::v1::Node::default()),
        ..Objects::default()
    }
}

/// So long after the registration, which was so long after the boot.
fn after(seconds: u64) -> Now {
    let start: Timestamp = START.parse().unwrap();
    Now {
        time: start + Duration::from_secs(seconds),
        uptime: 10_000 + seconds,
    }
}

fn decision(driver: Driver, objects: &Objects, repairs: &Repairs, now: Now) -> Vec<Decision> {
    let status = Status {
        drivers: vec![driver],
        ..Status::default()
    };
    let drivers = registered(&status).unwrap();
    let report = compare("node-1", "https://here", &drivers, objects);
    let decided = decide(&drivers, &report, Machine::This, repairs, now);
    decided.into_iter().map(|(_, decision)| decision).collect()
}

#[test]
fn a_lost_driver_is_announced_unless_a_rule_forbids_it() {
    let none = Repairs::default();
    let leave = |why| vec![Decision::Leave(why)];
    assert_eq!(
        decision(driver(), &lost(), &none, after(60)),
        [Decision::Announce]
    );
    assert_eq!(
        decision(driver(), &lost(), &none, after(59)),
        leave(WhyNot::Young)
    );
    // A clock that was set back by an hour, and by a moment.
    for (by, expected) in [(3600, vec![Decision::Announce]), (1, leave(WhyNot::Young))] {
        let mut back = after(60);
        back.time = START.parse::<Timestamp>().unwrap() - Duration::from_secs(by);
        assert_eq!(decision(driver(), &lost(), &none, back), expected);
    }
    // A Node that no kubelet has written to may be of another machine.
    let status = Status {
        drivers: vec![driver()],
        ..Status::default()
    };
    let drivers = registered(&status).unwrap();
    let report = compare("node-1", "https://here", &drivers, &lost());
    let unknown = decide(&drivers, &report, Machine::Unknown, &none, after(60));
    assert_eq!(unknown[0].1, Decision::Leave(WhyNot::UnknownMachine));
    let no_node = Objects::default();
    assert_eq!(
        decision(driver(), &no_node, &none, after(60)),
        leave(WhyNot::NodeMissing)
    );
    let silent = Driver {
        answering: false,
        ..driver()
    };
    assert_eq!(
        decision(silent, &lost(), &none, after(60)),
        leave(WhyNot::Silent)
    );
    let bad_time = Driver {
        since: "yesterday".to_owned(),
        ..driver()
    };
    assert_eq!(
        decision(bad_time, &lost(), &none, after(60)),
        leave(WhyNot::Young)
    );
}

#[test]
fn a_driver_that_the_kubelet_would_refuse_is_left_registered() {
    let with_topology = Driver {
        registered_topology: [("zone".to_owned(), "z1".to_owned())].into(),
        ..driver()
    };
    let mut objects = lost();
    let none = Repairs::default();
    // The kubelet adds a label that is missing.
    assert_eq!(
        decision(with_topology.clone(), &objects, &none, after(60)),
        [Decision::Announce]
    );
    let labels = [("zone".to_owned(), "z2".to_owned())].into();
    objects.node.as_mut().unwrap().metadata.labels = Some(labels);
    let decided = decision(with_topology, &objects, &none, after(60));
    assert!(
        matches!(&decided[..], [Decision::Leave(WhyNot::Collision(words))] if words.contains("zone=z2")),
        "{decided:?}"
    );
}

/// Looks every five minutes for so many days, and announces whenever the rules allow it. After an announcement
/// the cluster has the driver for `kept` seconds.
fn announcements(days: u64, kept: u64) -> Vec<u64> {
    let mut repairs = Repairs::default();
    let mut times: Vec<u64> = Vec::new();
    for now in (60..days * 86_400).step_by(300) {
        repairs = repairs.corrected(after(now));
        let is_there = times.last().is_some_and(|last| now - last < kept);
        if is_there {
            repairs.is_in_cluster(NAME, after(now));
        } else if decision(driver(), &lost(), &repairs, after(now)) == [Decision::Announce] {
            repairs.announced(NAME, after(now));
            times.push(now);
        }
    }
    times
}

#[test]
fn a_cluster_that_never_takes_the_driver_is_announced_to_ever_less_often() {
    let times = announcements(3, 0);
    let pauses: Vec<u64> = times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) / 60)
        .collect();
    assert_eq!(pauses[..5], [10, 20, 40, 80, 120], "{pauses:?}");
    assert!(pauses[5..].iter().all(|pause| *pause == 120), "{pauses:?}");
    assert_eq!(times.len(), 39, "{times:?}");
}

#[test]
fn a_cluster_that_loses_the_driver_again_soon_is_no_better() {
    for kept in [1, 300, 599] {
        assert_eq!(announcements(3, kept), announcements(3, 0), "{kept}");
    }
}

#[test]
fn an_announcement_that_has_helped_makes_the_next_one_no_later() {
    let pauses = |kept| {
        let times = announcements(1, kept);
        let mut pauses: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        pauses.dedup();
        pauses
    };
    assert_eq!(pauses(1200), [1200]);
    assert_eq!(pauses(7200), [7200]);
    // Never more often than once in ten minutes.
    assert!(pauses(900).iter().all(|pause| *pause >= 600));
}

#[test]
fn the_memory_of_one_driver_is_not_that_of_another() {
    let mut repairs = Repairs::default();
    repairs.announced("b.csi", after(60));
    assert_eq!(
        decision(driver(), &lost(), &repairs, after(61)),
        [Decision::Announce]
    );
    repairs.announced(NAME, after(60));
    assert_eq!(
        decision(driver(), &lost(), &repairs, after(61)),
        [Decision::Leave(WhyNot::Paused(599))]
    );
}

#[test]
fn what_is_not_known_of_earlier_repairs_delays_and_what_cannot_be_is_corrected() {
    let now = after(60);
    let unknown = Repairs::unknown(now).corrected(now);
    let decided = decision(driver(), &lost(), &unknown, now);
    assert_eq!(decided, [Decision::Leave(WhyNot::Paused(600))]);
    let later = after(660);
    let unknown = unknown.corrected(later);
    assert_eq!(unknown, Repairs::default());
    assert_eq!(
        decision(driver(), &lost(), &unknown, later),
        [Decision::Announce]
    );

    let text = r#"{"not_before": 18446744073709551615, "drivers": {"a.csi": {"announced": 18446744073709551615, "pause": 18446744073709551615}}}"#;
    let absurd: Repairs = serde_json::from_str(text).unwrap();
    let corrected = absurd.corrected(now);
    let wait = corrected.wait(NAME, now);
    assert_eq!(wait, LONGEST_PAUSE, "{corrected:?}");
    let text = r#"{"drivers": {"a.csi": {"announced": 0, "pause": 0}}}"#;
    let short: Repairs = serde_json::from_str(text).unwrap();
    assert_eq!(short.corrected(now), Repairs::default());
}

#[test]
fn an_announcement_that_was_not_made_does_not_count() {
    let mut repairs = Repairs::default();
    let before = repairs.announced(NAME, after(60));
    repairs.undo(NAME, before);
    assert_eq!(repairs, Repairs::default());
    repairs.announced(NAME, after(60));
    let once = repairs.clone();
    let before = repairs.announced(NAME, after(700));
    assert_eq!(repairs.wait(NAME, after(700)), 2 * FIRST_PAUSE);
    repairs.undo(NAME, before);
    assert_eq!(repairs, once);
}
