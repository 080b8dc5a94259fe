//! The delay before the next try, which is decided only here.

use std::time::Duration;

/// A delay that doubles from `first` to `longest`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) const fn new(first: Duration, longest: Duration) -> Backoff {
        Backoff { first, longest }
    }

    /// The delay after `tries` failed tries.
    pub(crate) fn delay(self, tries: u32) -> Duration {
        self.first
            .saturating_mul(1_u32.checked_shl(tries).unwrap_or(u32::MAX))
            .min(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_and_stays_there() {
        let backoff = Backoff::new(Duration::from_millis(1), Duration::from_secs(5));
        let delays: Vec<_> = [0, 1, 2, 12, 13, 31, 32, u32::MAX]
            .map(|n| backoff.delay(n).as_millis())
            .into();
        assert_eq!(delays, [1, 2, 4, 4096, 5000, 5000, 5000, 5000]);
    }
}
