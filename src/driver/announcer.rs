//! When to recreate the link so that a kubelet looks again: one place, one back-off.
//!
//! A kubelet that runs and does not call has either ignored the link (before 1.25, at its start),
//! given up after a failure (before 1.36), or waits in its own back-off for the link's path, which
//! ends after two minutes at the latest. A new link helps in the first two cases.

use std::time::Duration;

use super::Calling;
use super::machine::CALL_CHECK;
use crate::os::backoff::Backoff;
use crate::os::clock::Moment;

/// A kubelet registers within about a second of the link. After this time, it is late.
const UNCALLED: Backoff = Backoff::new(Duration::from_secs(3), Duration::from_secs(30));
/// A kubelet that said no may retry by itself, after half a second doubling to two minutes.
const REFUSED: Backoff = Backoff::new(Duration::from_secs(3), Duration::from_secs(120));
/// Without a visible kubelet, announcements are at least this far apart.
const BLIND: Duration = Duration::from_secs(300);

/// Decides when to announce again, while the driver is not registered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Announcer {
    /// When the next announcement is due. Without a time, the driver waits for a kubelet to show up.
    next: Option<Moment>,
    /// Announcements since the last news for the kubelet.
    tries: u32,
    refused: bool,
    /// The kubelet said no since the last announcement, and `tries` counts that.
    counted: bool,
    /// Announcements in a row after which no kubelet has asked.
    unanswered: u32,
    last: Option<Moment>,
    /// A kubelet has started since the last announcement.
    started: bool,
}

impl Announcer {
    /// When to call `decide` next.
    pub(crate) fn due(&self) -> Option<Moment> {
        self.next
    }

    /// The link was created.
    pub(crate) fn published(&mut self, now: Moment) {
        self.last = Some(now);
        self.wait(now);
    }

    /// A kubelet has called GetInfo. That proves nothing, but the path is not in its back-off.
    pub(crate) fn asked(&mut self) {
        self.unanswered = 0;
    }

    /// A kubelet is there, and two announcements have not made it call.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered >= 2
    }

    /// The kubelet said no.
    pub(crate) fn refused(&mut self, now: Moment) {
        self.refused = true;
        self.wait(now);
        self.tries = self.tries.saturating_add(1);
        self.counted = true;
    }

    /// The kubelet said yes: nothing more to announce.
    pub(crate) fn settled(&mut self) {
        *self = Announcer {
            last: self.last,
            ..Announcer::default()
        };
    }

    /// There is news for the kubelet: the back-off starts over.
    pub(crate) fn renewed(&mut self, now: Moment) {
        *self = Announcer {
            last: self.last,
            started: self.started,
            ..Announcer::default()
        };
        self.wait(now);
    }

    /// A kubelet has started. It may have called before we saw its start.
    pub(crate) fn started(&mut self, now: Moment) {
        self.renewed(now);
        self.started = true;
    }

    /// Whether to recreate the link now. Called when it is due, and with every resync.
    pub(crate) fn decides_to_announce(
        &mut self,
        now: Moment,
        kubelet_there: bool,
        calling: Calling,
    ) -> bool {
        match self.next {
            Some(at) if now < at => return false,
            None if kubelet_there => {
                // The kubelet has started unseen.
                self.renewed(now);
                return false;
            }
            Some(_) | None => {}
        }
        if calling != Calling::Nobody {
            self.next = Some(now + CALL_CHECK);
            return false;
        }
        let blind = !kubelet_there && !self.started;
        if blind && self.last.is_some_and(|last| now - last < BLIND) {
            self.next = None;
            return false;
        }
        self.started = false;
        if !std::mem::take(&mut self.counted) {
            self.tries = self.tries.saturating_add(1);
        }
        if kubelet_there {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        true
    }

    /// Makes equal situations equal, for the search over all states.
    #[cfg(test)]
    pub(crate) fn normalise(&mut self, time: impl Fn(Moment) -> Moment) {
        self.next = self.next.map(&time);
        self.last = self.last.map(|_| time(Moment::default()));
        self.tries = 0;
        self.unanswered = self.unanswered.min(2);
    }

    fn wait(&mut self, now: Moment) {
        let backoff = if self.refused { REFUSED } else { UNCALLED };
        self.next = Some(now + backoff.delay(self.tries));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When announcements are made, in seconds, by one that is asked exactly when it wants to be.
    fn times(announcer: &mut Announcer, mut now: Moment, there: bool, count: usize) -> Vec<u64> {
        let mut made = Vec::new();
        while made.len() < count {
            now = announcer
                .due()
                .map_or(now + Duration::from_secs(30), |at| at.max(now));
            if announcer.decides_to_announce(now, there, Calling::Nobody) {
                made.push(now.0 / 1000);
                announcer.published(now);
            }
        }
        made
    }

    #[test]
    fn a_kubelet_that_does_not_call_hears_of_us_again_and_again() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        let seconds = times(&mut announcer, Moment(0), true, 5);
        assert_eq!(seconds, [3, 9, 21, 45, 75]);
    }

    #[test]
    fn two_announcements_without_a_call_are_noticed_until_the_kubelet_calls() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        times(&mut announcer, Moment(0), true, 1);
        assert!(!announcer.is_unanswered());
        times(&mut announcer, Moment(3000), true, 1);
        assert!(announcer.is_unanswered());
        announcer.asked();
        assert!(!announcer.is_unanswered());
        times(&mut announcer, Moment(9000), false, 2);
        assert!(!announcer.is_unanswered(), "no kubelet is there");
    }

    #[test]
    fn after_a_refusal_it_slows_to_two_minutes() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        announcer.refused(Moment(0));
        let seconds = times(&mut announcer, Moment(0), true, 8);
        assert_eq!(seconds, [3, 9, 21, 45, 93, 189, 309, 429]);
    }

    #[test]
    fn a_kubelet_that_refuses_each_announcement_doubles_the_wait_each_time() {
        let mut announcer = Announcer::default();
        let mut now = Moment(0);
        announcer.published(now);
        let mut seconds = Vec::new();
        for _ in 0..6 {
            announcer.refused(now);
            now = announcer.due().unwrap();
            assert!(announcer.decides_to_announce(now, true, Calling::Nobody));
            announcer.published(now);
            seconds.push(now.0 / 1000);
        }
        assert_eq!(seconds, [3, 9, 21, 45, 93, 189]);
    }

    #[test]
    fn a_kubelet_that_comes_back_by_itself_is_never_interrupted() {
        let mut announcer = Announcer::default();
        let mut now = Moment(0);
        announcer.published(now);
        // A kubelet from 1.36 on: half a second, doubling, each found up to a second late.
        for attempt in 0..6_u32 {
            announcer.refused(now);
            now = now + Duration::from_millis(500 * (1 << attempt) + 1000);
            assert!(
                announcer.due().unwrap() > now,
                "announced into the kubelet's own retry {attempt}"
            );
        }
    }

    #[test]
    fn without_a_kubelet_one_announcement_for_a_sign_and_then_every_five_minutes() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        announcer.started(Moment(1000));
        let seconds = times(&mut announcer, Moment(1000), false, 3);
        assert_eq!(seconds[0], 4);
        assert!(
            seconds[1] - seconds[0] >= 300 && seconds[1] - seconds[0] <= 330,
            "{seconds:?}"
        );
        assert!(
            seconds[2] - seconds[1] >= 300 && seconds[2] - seconds[1] <= 330,
            "{seconds:?}"
        );
    }

    #[test]
    fn never_while_a_call_is_in_progress() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        assert!(!announcer.decides_to_announce(Moment(3000), true, Calling::This));
        assert!(!announcer.decides_to_announce(Moment(6000), true, Calling::This));
        assert!(announcer.decides_to_announce(Moment(9000), true, Calling::Nobody));
    }

    #[test]
    fn rests_until_a_kubelet_shows() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        assert!(!announcer.decides_to_announce(Moment(3000), false, Calling::Nobody));
        assert_eq!(announcer.due(), None);
        assert!(!announcer.decides_to_announce(Moment(60_000), true, Calling::Nobody));
        assert_eq!(announcer.due(), Some(Moment(63_000)));
    }
}
