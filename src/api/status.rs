//! The status as programs read it: its JSON, and which drivers are ready.

use jiff::Timestamp;

use super::cluster;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};
use crate::os::text::printable_json;

/// What a gate says while no driver is there.
const NO_DRIVERS: &str = "no drivers are configured or discovered";

/// What a gate says of a refused configuration without a reason.
const REFUSED: &str = "the daemon refused the changed configuration";

/// The JSON of `status --json`, on one line.
pub(crate) fn json(status: &Status) -> Result<String, serde_json::Error> {
    let (mut shown, now) = (status.clone(), Timestamp::now());
    for driver in &mut shown.drivers {
        driver.reason = cluster::reason(driver, now);
    }
    serde_json::to_string(&shown).map(printable_json)
}

/// The driver is registered and answers, and the cluster is not known to lack it: pods can use it.
pub(crate) fn is_ready(driver: &Driver) -> bool {
    can_be_called(driver) && driver.in_cluster != Some(false)
}

/// The driver is registered and answers: the kubelet can call it.
pub(crate) fn can_be_called(driver: &Driver) -> bool {
    driver.phase == Phase::Registered.as_str() && driver.answering
}

/// The driver should be ready and is not. A driver without a Node service is never registered, and must
/// not delay a client that waits for the node. A driver that a kubelet has registered had one.
pub(crate) fn is_unready(driver: &Driver) -> bool {
    let is_excused =
        driver.without_node_service && driver.phase == Phase::WaitingForDriver.as_str();
    !is_ready(driver) && !is_excused
}

/// Whether the driver is ready, in one word. A driver without a Node service is neither.
pub(crate) fn readiness(driver: &Driver) -> &'static str {
    if is_ready(driver) {
        "yes"
    } else if is_unready(driver) {
        "no"
    } else {
        "-"
    }
}

/// The number of the driver's volumes that are in use; `-` if it is not known.
pub(crate) fn volumes(driver: &Driver) -> String {
    let known = driver.volumes.map(|volumes| volumes.to_string());
    known.unwrap_or_else(|| "-".to_owned())
}

/// Why the drivers are not all ready, a line for each; empty if they are. There must be at least one.
pub(crate) fn unready_drivers(status: &Status) -> Vec<String> {
    if status.drivers.is_empty() {
        return vec![NO_DRIVERS.to_owned()];
    }
    let unready = status.drivers.iter().filter(|driver| is_unready(driver));
    unready.map(explain).collect()
}

/// Why the node is not ready for `status` and `wait`: beside the drivers, the changed configuration
/// must not have been refused. With `strict`, the daemon must have no problem at all.
pub(crate) fn shortfalls(status: &Status, strict: bool) -> Vec<String> {
    let mut shortfalls = unready_drivers(status);
    if strict {
        shortfalls.extend(status.problems.iter().cloned());
    } else if status.config_refused {
        // The first problem says why. A daemon of another version may not have it.
        let why = status.problems.first().cloned();
        shortfalls.push(why.unwrap_or_else(|| REFUSED.to_owned()));
    }
    shortfalls
}

/// A driver with its phase and its reason, in one line.
pub(crate) fn explain(driver: &Driver) -> String {
    let reason = cluster::reason(driver, Timestamp::now());
    format!("{}: {}: {reason}", driver.id, driver.phase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(phase: Phase, answering: bool) -> Driver {
        Driver {
            id: "a".to_owned(),
            phase: phase.to_string(),
            reason: "so".to_owned(),
            answering,
            ..Driver::default()
        }
    }

    fn status(drivers: Vec<Driver>) -> Status {
        Status {
            drivers,
            ..Status::default()
        }
    }

    #[test]
    fn ready_is_registered_and_answering_and_nothing_else() {
        for phase in Phase::ALL {
            for answering in [false, true] {
                let is_ready = phase == Phase::Registered && answering;
                let one = status(vec![driver(phase, answering)]);
                let expected: Vec<String> = match is_ready {
                    true => vec![],
                    false => vec![format!("a: {phase}: so")],
                };
                assert_eq!(unready_drivers(&one), expected);
                assert_eq!(shortfalls(&one, true), expected);
            }
        }
        let controller = Driver {
            without_node_service: true,
            ..driver(Phase::WaitingForDriver, true)
        };
        assert!(unready_drivers(&status(vec![controller.clone()])).is_empty());
        let changed = Driver {
            phase: Phase::Registered.to_string(),
            answering: false,
            ..controller
        };
        assert_eq!(unready_drivers(&status(vec![changed])).len(), 1);
        assert_eq!(unready_drivers(&status(vec![])), [NO_DRIVERS]);
    }

    /// The phase is the kubelet's word; ready is more than that.
    #[test]
    fn a_driver_that_the_cluster_is_known_to_lack_is_not_ready() {
        for (in_cluster, ready) in [(None, "yes"), (Some(true), "yes"), (Some(false), "no")] {
            let driver = Driver {
                in_cluster,
                ..driver(Phase::Registered, true)
            };
            assert_eq!(readiness(&driver), ready, "{in_cluster:?}");
            assert!(can_be_called(&driver));
        }
    }

    #[test]
    fn the_json_has_the_word_of_the_cluster_and_its_time() {
        let known = Driver {
            in_cluster: Some(false),
            cluster_checked: Some(Timestamp::now().to_string()),
            cluster_difference: "CSINode n does not list it".to_owned(),
            ..driver(Phase::Registered, true)
        };
        let text = json(&status(vec![
            known.clone(),
            driver(Phase::Registered, true),
        ]))
        .unwrap();
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        let [known_json, unknown] = [&json["drivers"][0], &json["drivers"][1]];
        let words = "so; CSINode n does not list it (checked 0s ago)";
        assert_eq!(known_json["reason"], words);
        assert_eq!(known_json["in_cluster"], false);
        assert_eq!(
            known_json["cluster_checked"],
            known.cluster_checked.unwrap()
        );
        assert_eq!(unknown["reason"], "so");
        assert!(unknown["in_cluster"].is_null() && unknown["cluster_checked"].is_null());
        assert!(!text.contains("cluster_difference"), "{text}");
    }

    #[test]
    fn a_refused_configuration_falls_short_and_another_problem_only_where_that_is_asked_for() {
        let note = || vec!["so it is".to_owned()];
        let noted = Status {
            notes: vec!["a risk".to_owned(), "so it is".to_owned()],
            problems: note(),
            ..status(vec![driver(Phase::Registered, true)])
        };
        assert!(shortfalls(&noted, false).is_empty());
        assert_eq!(shortfalls(&noted, true), note());
        let refused = Status {
            config_refused: true,
            ..noted
        };
        assert_eq!(shortfalls(&refused, false), note());
        let without_reason = Status {
            problems: vec![],
            ..refused.clone()
        };
        assert_eq!(shortfalls(&without_reason, false), [REFUSED]);
        assert!(unready_drivers(&refused).is_empty());
    }
}
