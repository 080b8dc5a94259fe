//! A point in time for code without I/O: milliseconds on a clock that never goes back.
//!
//! The state machine gets the time with each event and never reads a clock. That keeps it free of I/O,
//! and a test, or a search over all interleavings, can set the time.

use std::ops::{Add, Sub};
use std::time::Duration;

/// Milliseconds since the daemon started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    /// The latest multiple of `span` that is not after this moment.
    pub(crate) fn rounded_down(self, span: Duration) -> Moment {
        Moment(self.0 - self.0 % millis(span).max(1))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(millis(span)))
    }
}

impl Sub for Moment {
    type Output = Duration;

    fn sub(self, earlier: Moment) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
