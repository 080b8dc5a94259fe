//! The drivers that a command line names, by id or by name.

use crate::grpc::proto::control::{Driver, Status};
use crate::os::text::{enumerated, printable};

/// The most ids that a message lists.
const MOST_NAMED: usize = 10;

/// The driver with this id, or else with this name: as the daemon finds it for `withdraw`.
pub(super) fn find<'a>(status: &'a Status, driver: &str) -> Option<&'a Driver> {
    let drivers = || status.drivers.iter();
    let by_name = || drivers().find(|known| known.name.as_deref() == Some(driver));
    drivers().find(|known| known.id == driver).or_else(by_name)
}

/// The drivers that the daemon does not have.
pub(super) fn unknown<'a>(
    status: &'a Status,
    drivers: &'a [String],
) -> impl Iterator<Item = &'a String> {
    drivers
        .iter()
        .filter(|driver| find(status, driver).is_none())
}

/// The message about a driver that the daemon does not have, with the drivers that it has.
pub(super) fn no_driver(status: &Status, driver: &str) -> String {
    let ids = status.drivers.iter().map(|known| printable(&known.id));
    let has = match status.drivers.is_empty() {
        true => ", and no other".to_owned(),
        false => format!("; it has {}", enumerated(ids, MOST_NAMED)),
    };
    format!("the daemon has no driver \"{driver}\"{has}")
}

/// The same status with these drivers only; with all if `drivers` is empty.
pub(super) fn select(mut status: Status, drivers: &[String]) -> Status {
    if drivers.is_empty() {
        return status;
    }
    let found = drivers.iter().filter_map(|driver| find(&status, driver));
    let ids: Vec<String> = found.map(|driver| driver.id.clone()).collect();
    status.drivers.retain(|driver| ids.contains(&driver.id));
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(drivers: &[(&str, Option<&str>)]) -> Status {
        let driver = |(id, name): &(&str, Option<&str>)| Driver {
            id: (*id).to_owned(),
            name: name.map(str::to_owned),
            ..Driver::default()
        };
        Status {
            drivers: drivers.iter().map(driver).collect(),
            ..Status::default()
        }
    }

    fn ids(status: &Status) -> Vec<&str> {
        status.drivers.iter().map(|driver| &*driver.id).collect()
    }

    #[test]
    fn an_id_is_found_before_a_name() {
        let both = status(&[("a", Some("b")), ("b", Some("c"))]);
        assert_eq!(find(&both, "b").unwrap().id, "b");
        assert_eq!(find(&both, "c").unwrap().id, "b");
        assert!(find(&both, "d").is_none());
    }

    #[test]
    fn the_message_lists_the_drivers_that_exist_and_not_a_hundred() {
        let words = |ids: &[&str]| {
            let drivers: Vec<_> = ids.iter().map(|id| (*id, None)).collect();
            no_driver(&status(&drivers), "x")
        };
        let none = "the daemon has no driver \"x\"";
        assert_eq!(words(&[]), format!("{none}, and no other"));
        assert_eq!(words(&["a", "b"]), format!("{none}; it has a, b"));
        assert_eq!(words(&["\u{1b}"]), format!("{none}; it has \\u{{1b}}"));
        let many = words(&["a"; 12]);
        assert!(many.ends_with("a, a and 2 more"), "{many}");
    }

    #[test]
    fn a_selection_keeps_the_drivers_that_are_named_and_their_order() {
        let all = status(&[("a", None), ("b", Some("n")), ("c", None)]);
        let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let selected = |names: Vec<String>| select(all.clone(), &names);
        assert_eq!(ids(&selected(named(&["c", "n", "c"]))), ["b", "c"]);
        assert_eq!(ids(&selected(named(&["x"]))), [""; 0]);
        assert_eq!(ids(&selected(named(&[]))), ["a", "b", "c"]);
    }
}
