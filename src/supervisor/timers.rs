//! When each driver wants to be woken: one timer for all of them.

use std::collections::{BTreeSet, HashMap};

use super::DriverId;
use crate::os::clock::Moment;

/// Deadlines, soonest first. Setting one costs the same with a thousand drivers as with one.
#[derive(Default)]
pub(crate) struct Schedule {
    by_time: BTreeSet<(Moment, DriverId)>,
    by_driver: HashMap<DriverId, Moment>,
}

impl Schedule {
    pub(crate) fn set(&mut self, id: &DriverId, deadline: Option<Moment>) {
        if let Some(old) = self.by_driver.remove(id) {
            self.by_time.remove(&(old, id.clone()));
        }
        if let Some(at) = deadline {
            self.by_driver.insert(id.clone(), at);
            self.by_time.insert((at, id.clone()));
        }
    }

    pub(crate) fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|(at, _)| *at)
    }

    pub(crate) fn has(&self, id: &DriverId) -> bool {
        self.by_driver.contains_key(id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &(Moment, DriverId)> {
        self.by_time.iter()
    }

    /// The drivers whose time has come.
    pub(crate) fn due(&self, now: Moment) -> Vec<DriverId> {
        self.by_time
            .iter()
            .take_while(|(at, _)| *at <= now)
            .map(|(_, id)| id.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_deadline_set_for_a_driver_is_the_one_that_counts() {
        let (a, b): (DriverId, DriverId) = ("a".into(), "b".into());
        let mut schedule = Schedule::default();
        schedule.set(&a, Some(Moment(5)));
        schedule.set(&b, Some(Moment(7)));
        schedule.set(&a, Some(Moment(9)));
        assert_eq!(schedule.next(), Some(Moment(7)));
        assert_eq!(schedule.due(Moment(8)), std::slice::from_ref(&b));
        schedule.set(&b, None);
        assert_eq!(schedule.due(Moment(9)), [a]);
    }
}
