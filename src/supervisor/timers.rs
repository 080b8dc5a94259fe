//! The deadlines of the main loop, in one ordered set.

use std::collections::{BTreeSet, HashMap};

use super::RunnerKey;
use crate::os::clock::Moment;

/// What a deadline is for. Timers that are due together come in the order of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Timer {
    /// The driver's own deadline.
    Driver(RunnerKey),
    /// The directory of a discovered driver has been away for too long.
    Departure(RunnerKey),
    /// The slow look at everything.
    Resync,
    /// Memory is given back.
    Quiet,
    /// READY is sent at the latest.
    Ready,
    /// systemd had no room for the last message.
    Systemd,
}

/// Deadlines, soonest first. Setting a deadline costs the same with a thousand drivers as with one.
#[derive(Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(Moment, Timer)>,
    set: HashMap<Timer, Moment>,
}

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, deadline: Option<Moment>) {
        if let Some(old) = self.set.remove(&timer) {
            self.by_time.remove(&(old, timer));
        }
        if let Some(at) = deadline {
            self.set.insert(timer, at);
            self.by_time.insert((at, timer));
        }
    }

    /// Sets the deadline unless it is sooner already.
    pub(super) fn hasten(&mut self, timer: Timer, at: Moment) {
        let set = self.get(timer);
        self.set(timer, Some(set.map_or(at, |set| set.min(at))));
    }

    pub(super) fn get(&self, timer: Timer) -> Option<Moment> {
        self.set.get(&timer).copied()
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// The timers whose time has come. They stay until they are set again.
    pub(super) fn due(&self, now: Moment) -> BTreeSet<Timer> {
        let due = self.by_time.iter().take_while(|(at, _)| *at <= now);
        due.map(|(_, timer)| *timer).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_deadline_set_for_a_driver_is_the_one_that_counts() {
        let [a, b] = [1, 2].map(|number| Timer::Driver(RunnerKey(number)));
        let mut timers = Timers::default();
        timers.set(a, Some(Moment(5)));
        timers.set(b, Some(Moment(7)));
        timers.set(a, Some(Moment(9)));
        assert_eq!(timers.next(), Some(Moment(7)));
        assert_eq!(timers.due(Moment(8)), [b].into());
        timers.hasten(b, Moment(8));
        assert_eq!(timers.get(b), Some(Moment(7)));
        timers.set(b, None);
        assert_eq!(timers.due(Moment(9)), [a].into());
    }
}
