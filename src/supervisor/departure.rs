//! The departure of a discovered driver: its directory is gone.

use std::time::Duration;

use super::{RunnerKey, Supervisor, Timer};
use crate::csi::discover::exists;

/// A directory that has been away for so long does not come back: an upgrade of the driver or a
/// late mount takes less.
const GONE_FOR_GOOD: Duration = Duration::from_secs(300);

impl Supervisor {
    /// The directory of a discovered driver is gone. Without plugins_dir itself, such as a disk that is
    /// not mounted, the driver is away but has not left.
    pub(super) fn directory_gone(&mut self, key: RunnerKey, is_mounted: bool) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        let record = runner.driver.record();
        if !record.is_held() {
            return self.remove_departed(key);
        }
        // What was done by hand lasts until it is undone by hand. A link to a directory that is away with
        // its file system is still there. The main loop does not look at a path that may hang.
        let directory = self.discovery.directory.as_ref();
        let plugin = directory.map(|directory| directory.join(&*runner.id));
        let is_link = plugin.is_some_and(|path| !self.reach.may_hang(&path) && exists(&path));
        if record.withdrawn_by_hand || !is_mounted || is_link {
            return self.directory_stays(key);
        }
        let (id, patience) = (&runner.id, patience(runner.settings.withdraw_after));
        let since = *runner.directory_gone_since.get_or_insert_with(|| {
            tracing::warn!(driver = %id, "{id}: its directory is gone; withdrawn unless it is back within {patience:?}");
            now
        });
        self.timers
            .set(Timer::Departure(key), Some(since + patience));
    }

    pub(super) fn directory_stays(&mut self, key: RunnerKey) {
        if let Some(runner) = self.runners.get_mut(&key) {
            runner.directory_gone_since = None;
        }
        self.timers.set(Timer::Departure(key), None);
    }

    /// Removes a driver whose directory is gone when no kubelet holds it any more, or when it has been
    /// waited for long enough.
    pub(super) fn check_departure(&mut self, key: RunnerKey) {
        let set = self.timers.get(Timer::Departure(key));
        let Some((at, runner)) = set.zip(self.runners.get(&key)) else {
            return;
        };
        let record = runner.driver.record();
        if record.withdrawn_by_hand {
            self.directory_stays(key);
        } else if at <= self.now() || !record.is_held() {
            self.remove_departed(key);
        }
    }

    fn remove_departed(&mut self, key: RunnerKey) {
        if let Some(runner) = self.remove_driver(key) {
            let id = &runner.id;
            if runner.published.registration_socket.is_some() {
                tracing::warn!(driver = %id, "{id}: its directory is gone, and so is the driver");
            } else {
                tracing::info!(driver = %id, "{id}: its directory is gone, and so is the driver");
            }
            self.state_file.changed();
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
