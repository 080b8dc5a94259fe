//! The current boot of this machine: its id and its time.

use std::fs;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[cfg(feature = "cluster")]
use nix::time::{ClockId, clock_gettime};

/// The year 2000. An earlier time comes from a clock that was not set yet, or from a file system without
/// times.
const CLOCKS_ARE_SET: Duration = Duration::from_secs(946_684_800);

/// The boot's id: pids, start times and inodes mean nothing after a reboot. None where a container hides
/// that part of /proc. A boot without an id is never the same as another.
pub(crate) fn id() -> Option<&'static str> {
    static ID: LazyLock<Option<String>> = LazyLock::new(|| {
        let read = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        read.inspect_err(|error| tracing::warn!(%error, "cannot read the boot id"))
            .ok()
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty())
    });
    ID.as_deref()
}

/// The boot's time by the clock as it is now: setting the clock moves this time. None where /proc does not
/// show it.
pub(crate) fn time() -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds.trim().parse().ok()?))
}

/// The whole seconds since the boot, with those in which the machine was suspended; no clock can set them back.
#[cfg(feature = "cluster")]
pub(crate) fn uptime() -> u64 {
    let uptime = clock_gettime(ClockId::CLOCK_BOOTTIME).expect("Linux has this clock since 2.6.39");
    u64::try_from(uptime.tv_sec()).unwrap_or(0)
}

/// A file with an earlier time is older than this boot, even if the clock was set since. None where no
/// file of the boot has a usable time.
pub(crate) fn began() -> Option<SystemTime> {
    // The kernel makes /dev/null. It has no time where the kernel has no clock at that moment, as on most
    // arm64 machines, and udev gives it a new time when it is triggered.
    let null = fs::metadata("/dev/null").and_then(|found| found.modified());
    // A tmpfs that is made early at each boot. Its files have a birth time from Linux 5.19 on.
    let run = fs::metadata("/run").and_then(|found| found.created());
    earliest(time()?, &[null.ok(), run.ok()])
}

/// Setting the clock moves the boot's time, and does not move the times of files: a file that was made at
/// the boot has the clock's time of then. The earlier of both is right, whichever way the clock was set.
fn earliest(by_clock: SystemTime, by_files: &[Option<SystemTime>]) -> Option<SystemTime> {
    let is_set = |time: &SystemTime| {
        let since_1970 = time.duration_since(UNIX_EPOCH);
        since_1970.is_ok_and(|since| since >= CLOCKS_ARE_SET)
    };
    let witness = by_files.iter().flatten().copied().filter(is_set).min()?;
    Some(witness.min(by_clock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs((year - 1970) * 31_557_600)
    }

    #[test]
    fn a_clock_that_was_set_forward_does_not_make_files_of_this_boot_older_than_it() {
        // The machine came up in what it took for 2020, and learned years later that it is 2026.
        assert_eq!(earliest(at(2026), &[Some(at(2020)), None]), Some(at(2020)));
    }

    #[test]
    fn nor_does_a_clock_that_was_set_back() {
        assert_eq!(earliest(at(2020), &[Some(at(2026)), None]), Some(at(2020)));
    }

    #[test]
    fn without_a_file_of_the_boot_nothing_is_told() {
        assert_eq!(earliest(at(2026), &[None, None]), None);
        assert_eq!(earliest(at(2026), &[Some(UNIX_EPOCH), None]), None);
        let second = [Some(UNIX_EPOCH), Some(at(2025))];
        assert_eq!(earliest(at(2026), &second), Some(at(2025)));
    }
}
