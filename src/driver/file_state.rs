//! Whether a file of ours exists, and how soon it is restored when another process removes it.

use std::time::Duration;

use crate::disk::identity::Identity;
use crate::disk::obstacle::Obstacle;
use crate::os::backoff::Backoff;
use crate::os::clock::Moment;

/// Removals further apart than this do not add up.
const CALM: Duration = Duration::from_secs(30);
/// So many times the file is restored at once.
const AT_ONCE: u32 = 3;
/// After that, with these delays.
const CONTESTED: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
/// After an error of the file system.
const FAILED: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(30));

/// The registration socket or the link.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileState {
    what: &'static str,
    state: Occupancy,
    pace: RemovalPace,
    failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Occupancy {
    /// The file does not exist, and may be created.
    Absent,
    Ours(Identity),
    /// The file cannot be created. Without a time, the next try follows the next look at its path.
    Blocked {
        obstacle: Obstacle,
        retry: Option<Moment>,
    },
}

/// How often the file was removed of late.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct RemovalPace {
    count: u32,
    put_back: Option<Moment>,
}

impl FileState {
    pub(crate) fn new(what: &'static str) -> FileState {
        FileState {
            what,
            state: Occupancy::Absent,
            pace: RemovalPace::default(),
            failures: 0,
        }
    }

    pub(crate) fn identity(&self) -> Option<&Identity> {
        match &self.state {
            Occupancy::Ours(identity) => Some(identity),
            Occupancy::Absent | Occupancy::Blocked { .. } => None,
        }
    }

    pub(crate) fn obstacle(&self) -> Option<&Obstacle> {
        match &self.state {
            Occupancy::Blocked { obstacle, .. } => Some(obstacle),
            Occupancy::Absent | Occupancy::Ours(_) => None,
        }
    }

    /// The file may be created now.
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        match &self.state {
            Occupancy::Absent => true,
            Occupancy::Blocked { retry, .. } => retry.is_some_and(|at| at <= now),
            Occupancy::Ours(_) => false,
        }
    }

    /// When the next try is due, if nothing else happens.
    pub(crate) fn retry(&self) -> Option<Moment> {
        match &self.state {
            Occupancy::Blocked { retry, .. } => *retry,
            Occupancy::Absent | Occupancy::Ours(_) => None,
        }
    }

    /// The file exists.
    pub(crate) fn exists(&mut self, identity: Identity) {
        self.state = Occupancy::Ours(identity);
        self.failures = 0;
    }

    /// The file could not be created.
    pub(crate) fn blocked(&mut self, obstacle: Obstacle, now: Moment) {
        if obstacle == Obstacle::RemovedAtOnce {
            return self.disturbed(now);
        }
        let retry = if matches!(obstacle, Obstacle::Failed(_)) {
            self.failures = self.failures.saturating_add(1);
            Some(now + FAILED.delay(self.failures - 1))
        } else {
            None
        };
        self.state = Occupancy::Blocked { obstacle, retry };
    }

    /// We removed the file ourselves, or the next try may follow at once.
    pub(crate) fn cleared(&mut self) {
        self.state = Occupancy::Absent;
    }

    /// The path changed: the obstacle may be gone. A delay that was set is kept.
    pub(crate) fn look_again(&mut self) {
        if matches!(self.state, Occupancy::Blocked { retry: None, .. }) {
            self.state = Occupancy::Absent;
        }
    }

    /// Makes equal situations equal, for the search over all states.
    #[cfg(test)]
    pub(crate) fn normalise(
        &mut self,
        identity: impl Fn(&Identity) -> Identity,
        time: impl Fn(Moment) -> Moment,
    ) {
        match &mut self.state {
            Occupancy::Absent => {}
            Occupancy::Ours(file) => *file = identity(file),
            Occupancy::Blocked { retry, .. } => *retry = retry.map(&time),
        }
        self.pace.put_back = self.pace.put_back.map(|_| time(Moment::default()));
    }

    /// Another process removed the file. It is restored at once the first times, then more slowly.
    pub(crate) fn disturbed(&mut self, now: Moment) {
        let delay = self.pace.disturbed(now);
        self.state = if delay.is_zero() {
            Occupancy::Absent
        } else {
            Occupancy::Blocked {
                obstacle: Obstacle::Contested {
                    what: self.what,
                    count: self.pace.count,
                },
                retry: Some(now + delay),
            }
        };
    }
}

impl RemovalPace {
    /// The file was removed. Returns how long to wait before it is restored.
    pub(crate) fn disturbed(&mut self, now: Moment) -> Duration {
        if self.put_back.is_none_or(|at| now - at > CALM) {
            self.count = 0;
        }
        let more = self.count.checked_sub(AT_ONCE);
        let delay = more.map_or(Duration::ZERO, |more| CONTESTED.delay(more));
        self.count = self.count.saturating_add(1);
        self.put_back = Some(now + delay);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The delays that a rival meets that removes the file as soon as it exists.
    fn fight(rounds: usize) -> Vec<u64> {
        let mut pace = RemovalPace::default();
        let mut now = Moment(0);
        (0..rounds)
            .map(|_| {
                let delay = pace.disturbed(now);
                now = now + delay;
                delay.as_secs()
            })
            .collect()
    }

    #[test]
    fn three_times_at_once_then_slower_and_slower() {
        assert_eq!(fight(10), [0, 0, 0, 1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_calm_half_minute_ends_the_fight() {
        let mut pace = RemovalPace::default();
        for _ in 0..3 {
            assert_eq!(pace.disturbed(Moment(0)), Duration::ZERO);
        }
        assert_eq!(pace.disturbed(Moment(30_000)), Duration::from_secs(1));
        assert_eq!(pace.disturbed(Moment(61_001)), Duration::ZERO);
    }

    #[test]
    fn a_failing_file_system_is_tried_again_more_and_more_slowly() {
        let mut link = FileState::new("the link");
        let mut retries = Vec::new();
        for _ in 0..3 {
            link.blocked(Obstacle::Failed("no space".into()), Moment(0));
            retries.push(link.retry().unwrap().0);
        }
        assert_eq!(retries, [100, 200, 400]);
        link.look_again();
        assert!(!link.is_due(Moment(399)) && link.is_due(Moment(400)));
    }

    #[test]
    fn a_foreign_owner_is_tried_again_when_the_place_was_looked_at() {
        let mut link = FileState::new("the link");
        link.blocked(Obstacle::LiveOwner("pid 1".into()), Moment(0));
        assert!(!link.is_due(Moment(u64::MAX)));
        link.look_again();
        assert!(link.is_due(Moment(0)));
    }
}
