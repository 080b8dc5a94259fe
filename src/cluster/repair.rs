//! Which drivers are announced because the cluster has lost them, and which are left alone: pure rules.
//!
//! An announcement takes the driver off the node for about a second, so it must be needed and rare.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::comparison::Registered;
use super::machine::Machine;
use super::report::{Difference, DriverReport, Report};

/// A driver that was registered later than this may not be in the API server's cache yet.
const SETTLED: Duration = Duration::from_secs(60);
/// The pauses between two announcements of a driver, in seconds: the first, and the longest while they do not help.
pub(super) const FIRST_PAUSE: u64 = 600;
pub(super) const LONGEST_PAUSE: u64 = 2 * 3600;

/// The present: the time of day, and the seconds since the boot, which no clock can set back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) time: Timestamp,
    pub(crate) uptime: u64,
}

/// The earlier repairs of this boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Repairs {
    /// The uptime before which no driver is announced: what happened before is not known.
    #[serde(default)]
    not_before: Option<u64>,
    /// The last announcement of each driver, by the driver's name.
    #[serde(default)]
    drivers: BTreeMap<String, Attempt>,
}

/// An announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// The uptime.
    announced: u64,
    /// The seconds after it in which there is no other.
    pause: u64,
}

/// What is done about a driver that the cluster has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Announce,
    Leave(WhyNot),
}

/// Why a driver that the cluster has lost is not announced.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum WhyNot {
    #[error(
        "the Node object does not exist, and the kubelet could not write to it; restart the kubelet"
    )]
    NodeMissing,
    #[error(
        "it is not known whether the Node object is this machine's: it has no boot id yet, or that of this machine cannot be read"
    )]
    UnknownMachine,
    #[error("the kubelet would refuse it: {0}; remove the label, then reannounce")]
    Collision(String),
    #[error("the driver does not answer, and an announcement would take it off the node")]
    Silent,
    #[error("it was registered less than a minute ago")]
    Young,
    #[error("it was announced not long ago; the next announcement is possible in {}", span(*.0))]
    Paused(u64),
}

impl Repairs {
    /// Without knowledge of what was done before, the first announcement waits as after an announcement.
    pub(crate) fn unknown(now: Now) -> Repairs {
        Repairs {
            not_before: Some(now.uptime + FIRST_PAUSE),
            drivers: BTreeMap::new(),
        }
    }

    /// The same without what cannot be or does not matter any more.
    pub(crate) fn corrected(mut self, now: Now) -> Repairs {
        let latest = now.uptime + FIRST_PAUSE;
        self.not_before = self
            .not_before
            .map(|uptime| uptime.min(latest))
            .filter(|uptime| *uptime > now.uptime);
        for attempt in self.drivers.values_mut() {
            attempt.announced = attempt.announced.min(now.uptime);
            attempt.pause = attempt.pause.clamp(FIRST_PAUSE, LONGEST_PAUSE);
        }
        let matters = |attempt: &Attempt| now.uptime < attempt.again() + LONGEST_PAUSE;
        self.drivers.retain(|_, attempt| matters(attempt));
        self
    }

    /// The seconds until the driver may be announced; zero if it may be now.
    fn wait(&self, name: &str, now: Now) -> u64 {
        let again = self.drivers.get(name).map(|attempt| attempt.again());
        let earliest = again.max(self.not_before).unwrap_or(0);
        earliest.saturating_sub(now.uptime)
    }

    /// The seconds until each driver may be announced that is remembered.
    #[cfg(test)]
    pub(super) fn waits(&self, now: Now) -> Vec<u64> {
        let names = self.drivers.keys().map(String::as_str).chain([""]);
        names.map(|name| self.wait(name, now)).collect()
    }

    /// The same in words.
    pub(crate) fn wait_in_words(&self, name: &str, now: Now) -> String {
        span(self.wait(name, now))
    }

    /// The driver is announced now. An announcement before it that is still known did not help; it is returned.
    pub(crate) fn announced(&mut self, name: &str, now: Now) -> Option<Attempt> {
        let before = self.drivers.get(name).map(|attempt| attempt.pause);
        let pause = before.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
        let attempt = Attempt {
            announced: now.uptime,
            pause,
        };
        self.drivers.insert(name.to_owned(), attempt)
    }

    /// The driver was not announced after all; this was the announcement before.
    pub(crate) fn undo(&mut self, name: &str, before: Option<Attempt>) {
        match before {
            Some(before) => drop(self.drivers.insert(name.to_owned(), before)),
            None => drop(self.drivers.remove(name)),
        }
    }

    /// The cluster has the driver. An announcement has helped if that is so ten minutes later.
    fn is_in_cluster(&mut self, name: &str, now: Now) {
        let helped = |attempt: &Attempt| now.uptime >= attempt.announced + FIRST_PAUSE;
        if self.drivers.get(name).is_some_and(helped) {
            self.drivers.remove(name);
        }
    }

    /// Forgets the announcements that have helped. Tells whether there are any.
    pub(crate) fn forget_helped(&mut self, report: &Report, now: Now) -> bool {
        let before = self.drivers.len();
        for driver in report
            .drivers
            .iter()
            .filter(|driver| driver.is_in_cluster())
        {
            self.is_in_cluster(&driver.name, now);
        }
        self.drivers.len() != before
    }
}

impl Attempt {
    /// The uptime of the next announcement at the earliest.
    fn again(&self) -> u64 {
        self.announced + self.pause
    }
}

/// What to do about each driver that the cluster has lost, or knows with another node id.
pub(crate) fn decide<'a>(
    drivers: &'a [Registered],
    report: &Report,
    machine: Machine,
    repairs: &Repairs,
    now: Now,
) -> Vec<(&'a Registered, Decision)> {
    // The report has the drivers in the same order.
    let pairs = drivers.iter().zip(&report.drivers);
    let lost = pairs.filter(|(_, found)| !found.is_in_cluster());
    lost.map(|(driver, found)| {
        let why_not = why_not(driver, found, report, machine, repairs, now);
        (driver, why_not.map_or(Decision::Announce, Decision::Leave))
    })
    .collect()
}

fn why_not(
    driver: &Registered,
    found: &DriverReport,
    report: &Report,
    machine: Machine,
    repairs: &Repairs,
    now: Now,
) -> Option<WhyNot> {
    let collision = found
        .differences
        .iter()
        .find(|found| Difference::is_collision(found));
    let age = driver.since.map(|since| now.time.duration_since(since));
    // A time that is far in the future comes from a clock that was set back since, perhaps by years. The two looks and
    // the memory of repairs still hold.
    let is_settled = age.is_some_and(|age| age.as_secs().unsigned_abs() >= SETTLED.as_secs());
    let wait = repairs.wait(&driver.name, now);
    if !report.node_found {
        Some(WhyNot::NodeMissing)
    } else if machine != Machine::This {
        Some(WhyNot::UnknownMachine)
    } else if let Some(collision) = collision {
        Some(WhyNot::Collision(collision.words(&report.node)))
    } else if !driver.answering {
        Some(WhyNot::Silent)
    } else if !is_settled {
        Some(WhyNot::Young)
    } else if wait > 0 {
        Some(WhyNot::Paused(wait))
    } else {
        None
    }
}

fn span(seconds: u64) -> String {
    humantime::format_duration(Duration::from_secs(seconds)).to_string()
}

#[cfg(test)]
mod tests;
