//! When this machine was started, as far as the clock knows.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// None where /proc does not tell. A clock that was set since then moves it.
pub(crate) fn time() -> Option<SystemTime> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let seconds = stat.lines().find_map(|line| line.strip_prefix("btime "))?;
    Some(UNIX_EPOCH + Duration::from_secs(seconds.trim().parse().ok()?))
}
