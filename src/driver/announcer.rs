//! When to recreate the link so that a kubelet looks again: one place, one back-off.
//!
//! A kubelet that runs and does not call has either ignored the link (before 1.25, at its start),
//! given up after a failure (before 1.36), or waits in its own back-off for the link's path. A new
//! link helps in the first two cases, a link under another name in the third.

use std::time::Duration;

use super::Calling;
use super::machine::CALL_CHECK;
use crate::os::backoff::Backoff;
use crate::os::clock::Moment;
use crate::os::process::Process;

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
    path: PathHistory,
    last: Option<Moment>,
    /// A kubelet has started since the last announcement.
    started: bool,
}

/// What the running kubelet may know about the link's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum PathHistory {
    /// The kubelet has only ever seen a link to a socket that listens.
    #[default]
    Fine,
    /// The kubelet may have seen the link while nothing listened, and wait in its back-off for the path.
    Doubtful,
    /// This process has called through the path. A kubelet before 1.36 holds such a path as registered
    /// even when it failed later, and de-registers the driver by its name when it drops the path, which
    /// may be minutes later. The path is therefore never given up for another one.
    Called(Option<Process>),
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Wait,
    /// Rename a new link over the old one.
    Announce,
    /// Remove the link, and create one under another name.
    Rename,
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

    /// A link of ours existed when we started, and nothing listened behind it until now.
    pub(crate) fn adopted(&mut self, now: Moment) {
        if self.path == PathHistory::Fine {
            self.path = PathHistory::Doubtful;
        }
        self.published(now);
    }

    /// A kubelet has called GetInfo. That proves nothing, but the path is not in its back-off.
    pub(crate) fn asked(&mut self, caller: Option<Process>) {
        self.unanswered = 0;
        self.path = PathHistory::Called(caller);
    }

    /// The process that has called through the link's path.
    pub(crate) fn caller(&self) -> Option<Process> {
        match self.path {
            PathHistory::Called(caller) => caller,
            PathHistory::Fine | PathHistory::Doubtful => None,
        }
    }

    /// The kubelet said no.
    pub(crate) fn refused(&mut self, now: Moment) {
        self.refused = true;
        self.wait(now);
        self.tries = self.tries.saturating_add(1);
        self.counted = true;
    }

    /// The kubelet said yes: nothing more to announce.
    pub(crate) fn settled(&mut self, kubelet: Option<Process>) {
        *self = Announcer {
            path: PathHistory::Called(kubelet),
            last: self.last,
            ..Announcer::default()
        };
    }

    /// There is news for the kubelet: the back-off starts over.
    pub(crate) fn renewed(&mut self, now: Moment) {
        *self = Announcer {
            last: self.last,
            started: self.started,
            path: self.path,
            ..Announcer::default()
        };
        self.wait(now);
    }

    /// A kubelet has ended, and its back-off with it. Mostly that is half of a restart, whose other
    /// half is not visible where the root directory is not the kubelet's.
    pub(crate) fn ended(&mut self, process: Process, now: Moment) {
        self.started(now);
        if self.path == PathHistory::Called(Some(process)) {
            self.path = PathHistory::Fine;
        }
    }

    /// A kubelet has started. It may have called before we saw its start.
    pub(crate) fn started(&mut self, now: Moment) {
        self.renewed(now);
        if self.path == PathHistory::Doubtful {
            self.path = PathHistory::Fine;
        }
        self.started = true;
    }

    /// Called when it is due, and with every resync.
    pub(crate) fn decide(&mut self, now: Moment, kubelet_there: bool, calling: Calling) -> Verdict {
        match self.next {
            Some(at) if now < at => return Verdict::Wait,
            None if kubelet_there => {
                // The kubelet has started unseen.
                self.renewed(now);
                return Verdict::Wait;
            }
            Some(_) | None => {}
        }
        if calling != Calling::Nobody {
            self.next = Some(now + CALL_CHECK);
            return Verdict::Wait;
        }
        let blind = !kubelet_there && !self.started;
        if blind && self.last.is_some_and(|last| now - last < BLIND) {
            self.next = None;
            return Verdict::Wait;
        }
        self.started = false;
        if !std::mem::take(&mut self.counted) {
            self.tries = self.tries.saturating_add(1);
        }
        if kubelet_there {
            self.unanswered = self.unanswered.saturating_add(1);
        }
        if self.path == PathHistory::Doubtful && self.unanswered >= 2 {
            self.path = PathHistory::Fine;
            return Verdict::Rename;
        }
        Verdict::Announce
    }

    /// Makes equal situations equal, for the search over all states.
    #[cfg(test)]
    pub(crate) fn normalise(
        &mut self,
        time: impl Fn(Moment) -> Moment,
        runs: impl Fn(u32) -> bool,
    ) {
        self.next = self.next.map(&time);
        self.last = self.last.map(|_| time(Moment::default()));
        self.tries = 0;
        if let PathHistory::Called(Some(caller)) = &mut self.path {
            caller.pid = u32::from(runs(caller.pid));
        }
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
    fn times(
        announcer: &mut Announcer,
        mut now: Moment,
        there: bool,
        count: usize,
    ) -> Vec<(u64, Verdict)> {
        let mut made = Vec::new();
        while made.len() < count {
            now = announcer
                .due()
                .map_or(now + Duration::from_secs(30), |at| at.max(now));
            match announcer.decide(now, there, Calling::Nobody) {
                Verdict::Wait => {}
                verdict => {
                    made.push((now.0 / 1000, verdict));
                    announcer.published(now);
                }
            }
        }
        made
    }

    #[test]
    fn a_kubelet_that_does_not_call_hears_of_us_again_and_again() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        let made = times(&mut announcer, Moment(0), true, 5);
        assert!(
            made.iter()
                .all(|(_, verdict)| *verdict == Verdict::Announce)
        );
        let seconds: Vec<u64> = made.iter().map(|(at, _)| *at).collect();
        assert_eq!(seconds, [3, 9, 21, 45, 75]);
    }

    #[test]
    fn a_link_that_was_dead_for_a_while_gets_another_name_once() {
        let mut announcer = Announcer::default();
        announcer.adopted(Moment(0));
        let made = times(&mut announcer, Moment(0), true, 4);
        let expected = [
            (3, Verdict::Announce),
            (9, Verdict::Rename),
            (21, Verdict::Announce),
            (45, Verdict::Announce),
        ];
        assert_eq!(made, expected);
    }

    #[test]
    fn after_a_refusal_it_slows_to_two_minutes_and_keeps_the_name() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        announcer.refused(Moment(0));
        let made = times(&mut announcer, Moment(0), true, 8);
        assert!(
            made.iter()
                .all(|(_, verdict)| *verdict == Verdict::Announce)
        );
        let seconds: Vec<u64> = made.iter().map(|(at, _)| *at).collect();
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
            assert_eq!(
                announcer.decide(now, true, Calling::Nobody),
                Verdict::Announce
            );
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
        let made = times(&mut announcer, Moment(1000), false, 3);
        let seconds: Vec<u64> = made.iter().map(|(at, _)| *at).collect();
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
        assert_eq!(
            announcer.decide(Moment(3000), true, Calling::This),
            Verdict::Wait
        );
        assert_eq!(
            announcer.decide(Moment(6000), true, Calling::This),
            Verdict::Wait
        );
        assert_eq!(
            announcer.decide(Moment(9000), true, Calling::Nobody),
            Verdict::Announce
        );
    }

    #[test]
    fn rests_until_a_kubelet_shows() {
        let mut announcer = Announcer::default();
        announcer.published(Moment(0));
        assert_eq!(
            announcer.decide(Moment(3000), false, Calling::Nobody),
            Verdict::Wait
        );
        assert_eq!(announcer.due(), None);
        assert_eq!(
            announcer.decide(Moment(60_000), true, Calling::Nobody),
            Verdict::Wait
        );
        assert_eq!(announcer.due(), Some(Moment(63_000)));
    }
}
