//! How often a kubelet hears of changes of a driver that it has registered.
//!
//! Each announcement takes the driver off the node for a second. A driver that restarts with one node
//! id and then another would do that for as long as it goes on.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::moment::Moment;

const LONGEST: Duration = Duration::from_secs(30 * 60);
/// The first change is announced at once, and the next ones so long after the last.
const BETWEEN: Backoff = Backoff::new(Duration::from_secs(60), LONGEST);
/// Without a change for so long, the next one is a first one again. It is longer than any change waits.
const CALM: Duration = Duration::from_secs(60 * 60);

/// Announcements of changes, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pace {
    count: u32,
    last: Option<Moment>,
}

impl Pace {
    /// From when on a change may be announced.
    pub(crate) fn next(&self) -> Moment {
        match self.last {
            Some(last) => last + BETWEEN.delay(self.count.saturating_sub(1)),
            None => Moment::default(),
        }
    }

    /// A change was announced.
    pub(crate) fn announced(&mut self, now: Moment) {
        if self.last.is_some_and(|last| now - last > CALM) {
            self.count = 0;
        }
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }

    /// A change was announced before, so that the next one may have to wait.
    pub(crate) fn has_begun(&self) -> bool {
        self.last.is_some()
    }

    /// Makes equal situations equal, for the search over all states: how long a wait is does not
    /// matter there, only whether it is over.
    #[cfg(test)]
    pub(crate) fn normalise(&mut self, time: impl Fn(Moment) -> Moment) {
        if self.last.is_some() {
            let next = time(self.next());
            *self = Pace {
                count: 1,
                last: Some(Moment(next.0.saturating_sub(60_000))),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    #[test]
    fn at_once_then_after_a_minute_doubling_to_thirty() {
        let mut pace = Pace::default();
        let mut now = Moment(5 * MINUTE);
        assert!(pace.next() <= now && !pace.has_begun());
        let mut waits = Vec::new();
        for _ in 0..8 {
            pace.announced(now);
            waits.push((pace.next() - now).as_secs() / 60);
            now = pace.next();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn an_hour_without_a_change_starts_it_over() {
        let mut pace = Pace::default();
        for _ in 0..5 {
            pace.announced(Moment(0));
        }
        let later = Moment(61 * MINUTE);
        assert!(pace.next() <= later);
        pace.announced(later);
        assert_eq!(pace.next(), Moment(62 * MINUTE));
    }
}
