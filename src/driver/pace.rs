//! How often changes to a registered driver are announced to the kubelet.
//!
//! Each announcement takes the driver off the node for a second. A driver whose node id changes
//! with every restart would be off the node all the time.

use std::time::Duration;

use crate::os::backoff::Backoff;
use crate::os::clock::Moment;

const LONGEST: Duration = Duration::from_secs(30 * 60);
/// The first change is announced at once, each further one so long after the last.
const BETWEEN: Backoff = Backoff::new(Duration::from_secs(60), LONGEST);
/// After so long without a change, the next one counts as the first. Longer than any wait.
const CALM: Duration = Duration::from_secs(60 * 60);

/// A driver whose old socket no process serves is of no use until the kubelet knows the new one.
const URGENT: Duration = Duration::from_secs(10);

/// Announcements of changes, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ChangePace {
    count: u32,
    last: Option<Moment>,
    /// A change waits for its time.
    holding: bool,
}

impl ChangePace {
    /// When the next change may be announced.
    pub(crate) fn next(&self, urgent: bool) -> Moment {
        let delay = BETWEEN.delay(self.count.saturating_sub(1));
        let delay = if urgent { delay.min(URGENT) } else { delay };
        self.last.map_or_else(Moment::default, |last| last + delay)
    }

    /// Whether a change has to wait.
    pub(crate) fn holds(&mut self, urgent: bool, now: Moment) -> bool {
        self.holding = now < self.next(urgent);
        self.holding
    }

    /// A change was announced.
    pub(crate) fn announced(&mut self, now: Moment) {
        if self.last.is_some_and(|last| now - last > CALM) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
        self.holding = false;
    }

    /// A change was looked at, and has to wait.
    pub(crate) fn is_holding(&self) -> bool {
        self.holding
    }

    /// When the longest wait ends, if there was an announcement, for the search over all states.
    #[cfg(test)]
    pub(crate) fn ends(&self) -> Option<Moment> {
        self.last.map(|_| self.next(false))
    }

    /// Makes equal situations equal, for the search over all states: how long a wait is does not
    /// matter there, only whether it is over. What is urgent does not wait there.
    #[cfg(test)]
    pub(crate) fn normalise(&mut self, time: impl Fn(Moment) -> Moment) {
        if let Some(ends) = self.ends() {
            self.count = 1;
            self.last = Some(Moment(time(ends).0.saturating_sub(60_000)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn at_once_then_after_a_minute_doubling_to_thirty() {
        let mut pace = ChangePace::default();
        let mut now = Moment(5 * MINUTE);
        assert!(pace.next(false) <= now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            pace.announced(now);
            waits.push((pace.next(false) - now).as_secs() / 60);
            now = pace.next(false);
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn an_hour_without_a_change_starts_it_over() {
        let mut pace = ChangePace::default();
        for _ in 0..5 {
            pace.announced(Moment(0));
        }
        let later = Moment(61 * MINUTE);
        assert!(pace.next(false) <= later);
        pace.announced(later);
        assert_eq!(pace.next(false), Moment(62 * MINUTE));
    }

    #[test]
    fn what_is_urgent_waits_for_ten_seconds_at_most() {
        let mut pace = ChangePace::default();
        for _ in 0..9 {
            pace.announced(Moment(0));
        }
        assert!(pace.holds(true, Moment(9_999)) && pace.is_holding());
        assert!(!pace.holds(true, Moment(10_000)) && !pace.is_holding());
        assert!(pace.holds(false, Moment(29 * MINUTE)));
    }
}
