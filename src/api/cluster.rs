//! The cluster's word about a driver, as the status shows it.
//!
//! The snapshot has the time of the check, and no age: an age would change without an event.

use jiff::Timestamp;

use super::age;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::Driver;

/// How the reason of a registered driver begins, up to the first semicolon.
const REGISTERED_BY: &str = "registered by ";

/// The driver's reason, with what the cluster has of the driver and how old that is.
pub(crate) fn reason(driver: &Driver, now: Timestamp) -> String {
    let (reason, difference) = (&driver.reason, &driver.cluster_difference);
    let checked = driver.cluster_checked.as_deref().unwrap_or_default();
    let checked = || format!("checked {} ago", age(checked, now));
    match word(driver) {
        None => reason.clone(),
        Some(false) => without(reason, difference, &format!(" ({})", checked())),
        Some(true) if difference.is_empty() => format!("{reason}; in the cluster, {}", checked()),
        Some(true) => format!("{reason}; in the cluster, but {difference} ({})", checked()),
    }
}

/// A reason of the driver, and what the cluster lacks of it, in words that do not age.
pub(crate) fn ageless_reason(reason: String, driver: &Driver) -> String {
    match word(driver) {
        Some(false) => without(&reason, &driver.cluster_difference, ""),
        Some(true) | None => reason,
    }
}

/// The words for a driver that the cluster does not have, which follow "but".
pub(crate) fn loss(difference: &str) -> &str {
    match difference {
        "" => "the cluster does not have it",
        difference => difference,
    }
}

/// Whether the cluster has the driver, where the reason is about its registration.
fn word(driver: &Driver) -> Option<bool> {
    let is_registered = driver.phase == Phase::Registered.as_str();
    driver.in_cluster.filter(|_| is_registered)
}

/// The loss belongs to the registration, and goes before all else that a reason tells of the driver.
fn without(reason: &str, difference: &str, checked: &str) -> String {
    let loss = loss(difference);
    if !reason.starts_with(REGISTERED_BY) {
        return format!("{reason}; {loss}{checked}");
    }
    match reason.split_once("; ") {
        Some((registered, more)) => format!("{registered}, but {loss}{checked}; {more}"),
        None => format!("{reason}, but {loss}{checked}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BY: &str = "registered by kubelet (pid 2047)";
    const SILENT: &str =
        "registered by kubelet (pid 2047); driver not responding (so); registration retained";
    const COLLISION: &str =
        "kept as registered: so; remove the label from the node, then reannounce";
    const LOST: &str = "CSINode node-1 does not list it";

    fn driver(reason: &str, in_cluster: Option<bool>, difference: &str) -> Driver {
        Driver {
            phase: Phase::Registered.to_string(),
            reason: reason.to_owned(),
            in_cluster,
            cluster_checked: in_cluster.map(|_| "2026-03-02T09:59:20Z".to_owned()),
            cluster_difference: difference.to_owned(),
            ..Driver::default()
        }
    }

    #[test]
    fn the_reason_says_what_the_cluster_has_and_how_old_that_is() {
        let now = "2026-03-02T10:00:00Z".parse().unwrap();
        let label = "the Node has another label";
        for (reason_before, in_cluster, difference, words) in [
            (BY, None, "", BY.to_owned()),
            (
                BY,
                Some(true),
                "",
                format!("{BY}; in the cluster, checked 40s ago"),
            ),
            (
                BY,
                Some(true),
                label,
                format!("{BY}; in the cluster, but {label} (checked 40s ago)"),
            ),
            (
                BY,
                Some(false),
                LOST,
                format!("{BY}, but {LOST} (checked 40s ago)"),
            ),
            (
                BY,
                Some(false),
                "",
                format!("{BY}, but the cluster does not have it (checked 40s ago)"),
            ),
            (
                SILENT,
                Some(true),
                "",
                format!("{SILENT}; in the cluster, checked 40s ago"),
            ),
            (
                SILENT,
                Some(false),
                LOST,
                format!(
                    "{BY}, but {LOST} (checked 40s ago); driver not responding (so); registration retained"
                ),
            ),
            (
                COLLISION,
                Some(false),
                LOST,
                format!("{COLLISION}; {LOST} (checked 40s ago)"),
            ),
        ] {
            let driver = driver(reason_before, in_cluster, difference);
            assert_eq!(reason(&driver, now), words);
        }
        let later = "2026-03-02T10:01:20Z".parse().unwrap();
        let words = reason(&driver(BY, Some(true), ""), later);
        assert_eq!(words, format!("{BY}; in the cluster, checked 2m ago"));
    }

    #[test]
    fn another_phase_has_a_reason_of_its_own() {
        let conflict = Driver {
            phase: Phase::Conflict.to_string(),
            ..driver("another process serves it", Some(false), LOST)
        };
        assert_eq!(reason(&conflict, Timestamp::now()), conflict.reason);
    }

    #[test]
    fn words_without_an_age_tell_of_a_loss_and_of_nothing_else() {
        for (in_cluster, words) in [
            (None, BY.to_owned()),
            (Some(true), BY.to_owned()),
            (Some(false), format!("{BY}, but {LOST}")),
        ] {
            let driver = driver(BY, in_cluster, LOST);
            assert_eq!(ageless_reason(BY.to_owned(), &driver), words);
        }
    }
}
