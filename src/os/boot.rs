//! Which boot of this machine it is, and when that was, by the clock and by what the clock cannot move.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time before this is that of a clock that had not been set yet, or of a file system that has none.
const CLOCKS_ARE_SET: Duration = Duration::from_secs(946_684_800);

/// Pids, start times and inodes mean nothing after a reboot. None where the boot has no name for us, as
/// where a container hides that part of /proc: nothing is the same as a boot that is not known.
pub(crate) fn id() -> Option<&'static str> {
    static ID: LazyLock<Option<String>> = LazyLock::new(|| {
        let read = fs::read_to_string("/proc/sys/kernel/random/boot_id");
        read.inspect_err(|error| tracing::warn!(%error, "the boot id cannot be read"))
            .ok()
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty())
    });
    ID.as_deref()
}

/// By the clock as it is now. None where /proc does not tell. A clock that is set moves it.
pub(crate) fn time() -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds.trim().parse().ok()?))
}

/// Whatever has an earlier time was made before this boot, also where the clock was set since. None
/// where that cannot be told.
pub(crate) fn began() -> Option<SystemTime> {
    earliest(time()?, &[made_at_boot(), run_made()])
}

/// A step of the clock moves the time of the boot, and leaves the times of files as they were: one
/// made at the boot tells what the clock said then. Files of this boot are as new as the earlier of
/// both, whichever way the clock was set.
fn earliest(by_clock: SystemTime, by_files: &[Option<SystemTime>]) -> Option<SystemTime> {
    let is_set = |time: &SystemTime| {
        let since_1970 = time.duration_since(UNIX_EPOCH);
        since_1970.is_ok_and(|since| since >= CLOCKS_ARE_SET)
    };
    let witness = by_files.iter().flatten().copied().filter(is_set).min()?;
    Some(witness.min(by_clock))
}

/// The kernel makes this one. Where there is no clock yet at that moment, as on most of arm64, it has no
/// time; and udev gives it a new one when it is triggered.
fn made_at_boot() -> Option<SystemTime> {
    fs::metadata("/dev/null").ok()?.modified().ok()
}

/// A file system in memory, made early at each boot; its files have a time of birth from Linux 5.19 on.
fn run_made() -> Option<SystemTime> {
    fs::metadata(Path::new("/run")).ok()?.created().ok()
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
