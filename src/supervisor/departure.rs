//! The departure of a driver: its directory is gone, or the configuration has lost it.

use std::time::Duration;

use super::taken_off::Removal;
use super::volume_looks::Asking;
use super::{Runner, RunnerKey, Supervisor, Timer};
use crate::config::Settings;
use crate::csi::discover::exists;
use crate::driver::leaving::LOOK_AGAIN;
use crate::kubelet::volumes::NodeVolumes;
use crate::os::clock::Moment;
use crate::systemd::journal::message_id;

/// A directory that has been away for so long does not come back: an upgrade of the driver or a
/// late mount takes less.
const GONE_FOR_GOOD: Duration = Duration::from_secs(300);

/// A driver is to be removed, unless its volumes are in use.
#[derive(Debug)]
pub(super) struct Departure {
    cause: DepartureCause,
    /// When the volumes are looked at; none while they are.
    due: Option<Moment>,
    /// The volumes in use that keep the driver on the node, in words.
    kept_by: Option<String>,
}

/// Why a driver is to be removed.
#[derive(Debug)]
enum DepartureCause {
    /// The directory of a discovered driver is gone since then.
    Directory(Moment),
    /// The configuration does not have the driver any more, because of this change.
    Configuration(String),
}

impl Departure {
    /// The directory is the cause.
    pub(super) fn is_of_directory(&self) -> bool {
        matches!(self.cause, DepartureCause::Directory(_))
    }

    /// Why a driver that should be gone is still there, for its reason.
    pub(super) fn words(&self) -> Option<String> {
        let kept_by = self.kept_by.as_ref()?;
        let cause = self.cause.words();
        Some(format!("{cause}, and the registration stays: {kept_by}"))
    }
}

impl DepartureCause {
    fn words(&self) -> &str {
        match self {
            DepartureCause::Directory(_) => "its directory is gone",
            DepartureCause::Configuration(cause) => cause,
        }
    }
}

impl Supervisor {
    /// The directory of a discovered driver is gone. Without plugins_dir itself, such as a disk that is
    /// not mounted, the driver is away but has not left.
    pub(super) fn directory_gone(&mut self, key: RunnerKey, has_plugins_dir: bool) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        let record = runner.driver.record();
        // It goes only by a look.
        if runner.is_lost() {
            return;
        }
        if !record.is_held() {
            return self.remove_departed(key);
        }
        // What was done by hand lasts until it is undone by hand. A link to a directory that is away with
        // its file system is still there. The main loop does not look at a path that may hang.
        let directory = self.discovery.directory.as_ref();
        let plugin = directory.map(|directory| directory.join(&*runner.id));
        let is_link = plugin.is_some_and(|path| !self.reach.may_hang(&path) && exists(&path));
        if record.withdrawn_by_hand || !has_plugins_dir || is_link {
            return self.directory_stays(key);
        }
        let (id, patience) = (&runner.id, patience(runner.settings.withdraw_after));
        let departure = runner.departure.get_or_insert_with(|| {
            tracing::warn!(driver = %id, "{id}: its directory is gone; withdrawn unless it is back within {patience:?}, or its volumes are in use");
            Departure {
                cause: DepartureCause::Directory(now),
                due: Some(now),
                kept_by: None,
            }
        });
        // A reload may have changed how long the driver is waited for.
        if let DepartureCause::Directory(since) = departure.cause
            && departure.kept_by.is_none()
            && departure.due.is_some()
        {
            departure.due = Some(since + patience);
        }
        let due = departure.due;
        self.timers.set(Timer::Departure(key), due);
    }

    /// The directory of a driver is there, or not looked for any more.
    pub(super) fn directory_stays(&mut self, key: RunnerKey) {
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        if runner
            .departure
            .take_if(|it| it.is_of_directory())
            .is_some()
        {
            self.timers.set(Timer::Departure(key), None);
            self.queue.mark(key);
        }
    }

    /// Removes a driver that is to leave when no kubelet holds it any more. When it has been waited for long
    /// enough, its volumes are looked at first.
    pub(super) fn check_departure(&mut self, key: RunnerKey) {
        let now = self.now();
        let set = self.timers.get(Timer::Departure(key));
        let Some((at, runner)) = set.zip(self.runners.get_mut(&key)) else {
            return;
        };
        let record = runner.driver.record();
        let Some(departure) = &mut runner.departure else {
            return;
        };
        // A driver that the configuration has lost may not be registered for a moment, and goes only by a look.
        let is_of_directory = departure.is_of_directory();
        if record.withdrawn_by_hand && is_of_directory {
            self.directory_stays(key);
        } else if !record.is_held() && is_of_directory {
            self.remove_departed(key);
        } else if at <= now {
            departure.due = None;
            self.timers.set(Timer::Departure(key), None);
            self.look_at_volumes(Asking::Departure(key));
        }
    }

    /// The volumes of a driver that is to leave are known.
    pub(super) fn depart(&mut self, key: RunnerKey, volumes: &NodeVolumes) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        let kept_by = runner.removal_barred_by(volumes);
        let Some(departure) = runner.departure.as_mut().filter(|it| it.due.is_none()) else {
            return;
        };
        if kept_by.is_none() {
            return self.remove_departed(key);
        }
        let is_new = departure.kept_by.is_none();
        departure.kept_by = kept_by;
        departure.due = Some(now + LOOK_AGAIN);
        self.timers.set(Timer::Departure(key), departure.due);
        if is_new {
            runner.tell_kept();
        }
        self.queue.mark(key);
    }

    /// The configuration has lost this driver, and volumes of it are in use.
    pub(super) fn has_lost(&self, id: &str) -> bool {
        let runner = self.key_of(id).and_then(|key| self.runners.get(&key));
        runner.is_some_and(Runner::is_lost)
    }

    /// The configuration has lost a driver by a reload: the driver goes, unless volumes of it are in use.
    pub(super) fn lose(&mut self, key: RunnerKey, old: &Settings, volumes: &NodeVolumes) {
        let Some(runner) = self.runners.get(&key) else {
            return;
        };
        let Some(kept_by) = runner.removal_barred_by(volumes) else {
            self.tell_removal(old, runner, &Removal::Gone);
            self.remove_driver(key);
            return;
        };
        let cause = self.cause_of_loss(old, runner);
        self.was_lost(key, cause, kept_by);
    }

    /// Keeps a driver that the configuration has lost, because of this change, while these volumes of it are in
    /// use.
    pub(super) fn was_lost(&mut self, key: RunnerKey, cause: String, kept_by: String) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        let before = runner.departure.take();
        let is_new = before.is_none();
        // The first loss is the cause: since then the driver is only kept.
        let cause = match before.map(|departure| departure.cause) {
            Some(DepartureCause::Configuration(first)) => first,
            Some(DepartureCause::Directory(_)) | None => cause,
        };
        let departure = Departure {
            cause: DepartureCause::Configuration(cause),
            due: Some(now + LOOK_AGAIN),
            kept_by: Some(kept_by),
        };
        self.timers.set(Timer::Departure(key), departure.due);
        runner.departure = Some(departure);
        if is_new {
            runner.tell_kept();
        }
        self.queue.mark(key);
    }

    /// The configuration has a driver, perhaps again. The directory of a driver with a table is not looked for.
    pub(super) fn stays_configured(&mut self, key: RunnerKey) {
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        let is_declared = self.settings.drivers.contains_key(&*runner.id);
        let is_over = |departure: &mut Departure| is_declared || !departure.is_of_directory();
        if runner.departure.take_if(is_over).is_some() {
            self.timers.set(Timer::Departure(key), None);
            self.queue.mark(key);
        }
    }

    fn remove_departed(&mut self, key: RunnerKey) {
        if let Some(runner) = self.remove_driver(key) {
            let id = &runner.id;
            let cause = runner.departure.as_ref().map(|departure| &departure.cause);
            let words = match cause {
                Some(DepartureCause::Configuration(cause)) => {
                    format!("taken off the node, because its volumes are no longer in use: {cause}")
                }
                Some(DepartureCause::Directory(_)) | None => {
                    "its directory is gone, and so is the driver".to_owned()
                }
            };
            if runner.published.registration_socket.is_some() {
                tracing::warn!(driver = %id, "{id}: {words}");
            } else {
                tracing::info!(driver = %id, "{id}: {words}");
            }
            self.state_file.changed();
        }
    }
}

impl Runner {
    /// The configuration has lost the driver, and volumes of it are in use.
    fn is_lost(&self) -> bool {
        let departure = self.departure.as_ref();
        departure.is_some_and(|departure| !departure.is_of_directory())
    }

    /// The volumes that keep a driver which is to be removed, in words. A driver that the configuration has lost
    /// may be without its link for a moment.
    fn removal_barred_by(&self, volumes: &NodeVolumes) -> Option<String> {
        match self.is_lost() {
            true => self.volumes(volumes).words(),
            false => self.kept_by(volumes),
        }
    }

    /// Says once why the driver stays.
    fn tell_kept(&self) {
        if let Some(words) = self.departure.as_ref().and_then(Departure::words) {
            let (id, message_id) = (&self.id, message_id::KEPT_IN_USE);
            tracing::warn!(message_id, driver = %id, "{id}: {words}");
        }
    }
}

/// How long a driver that is registered may be without its directory.
fn patience(withdraw_after: Option<Duration>) -> Duration {
    withdraw_after.map_or(GONE_FOR_GOOD, |after| after.min(GONE_FOR_GOOD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_gone_for_good_after_five_minutes_or_withdraw_after() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(patience(None), minutes(5));
        assert_eq!(patience(Some(minutes(60))), minutes(5));
        assert_eq!(patience(Some(minutes(1))), minutes(1));
    }
}
