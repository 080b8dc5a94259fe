//! The share of the daemon's time that a storm of events may take.
//!
//! The daemon is one thread. While events come, reading inotify and looking at the changes never wait: a
//! process that changes files in a watched directory without a pause would starve callers, timers and
//! signals.

use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

/// A reading and the look after it count for at least this long: then a storm is read a thousand times a
/// second, many events at a time, and not once for each event.
const LEAST: Duration = Duration::from_micros(500);
/// Time that events may use in advance. Ordinary events on a node, such as a hundred drivers that start at
/// once, are followed without a pause.
const ALLOWANCE: Duration = Duration::from_millis(100);

/// Gives events half of the time, once they have used up an allowance.
pub(super) struct Throttle {
    /// When the present look began.
    begun: Option<Instant>,
    /// When the rest of the daemon will have had as much time as the events.
    even: Instant,
}

impl Throttle {
    pub(super) fn new() -> Throttle {
        Throttle {
            begun: None,
            even: Instant::now(),
        }
    }

    /// The time from here to the next [`Throttle::rest`] is spent on events.
    pub(super) fn begin(&mut self) {
        self.begun.get_or_insert_with(Instant::now);
    }

    /// Lets other tasks run, and waits while events have used more than their share. Cancel safe.
    pub(super) async fn rest(&mut self) {
        if let Some(begun) = self.begun.take() {
            let used = begun.elapsed().max(LEAST);
            self.even = self.even.max(begun) + 2 * used;
        }
        if Instant::now() + ALLOWANCE < self.even {
            sleep_until(self.even - ALLOWANCE).await;
        } else {
            yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    /// With a clock that jumps to the next deadline: how long `looks` of this length take in all.
    async fn looks(throttle: &mut Throttle, looks: u32, each: Duration) -> Duration {
        let started = Instant::now();
        for _ in 0..looks {
            throttle.begin();
            advance(each).await;
            throttle.rest().await;
        }
        started.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_now_and_then_is_looked_at_at_once() {
        let mut throttle = Throttle::new();
        for _ in 0..100 {
            let took = looks(&mut throttle, 10, Duration::ZERO).await;
            assert_eq!(took, Duration::ZERO);
            advance(Duration::from_millis(20)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_without_end_gets_half_of_the_time_after_a_while() {
        let mut throttle = Throttle::new();
        let each = Duration::from_millis(5);
        let took = looks(&mut throttle, 1000, each).await;
        assert!(took >= 2 * 1000 * each - ALLOWANCE - 2 * each, "{took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_costs_next_to_nothing_is_not_done_more_than_a_thousand_times_a_second() {
        let mut throttle = Throttle::new();
        let took = looks(&mut throttle, 5000, Duration::from_micros(1)).await;
        assert!(took >= Duration::from_millis(4800), "{took:?}");
    }
}
