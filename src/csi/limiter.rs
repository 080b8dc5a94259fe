//! The limit on how many drivers are asked at the same time. Without it, a hundred drivers that
//! appear at once would have a hundred connections at once, whose memory the process keeps.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// How many drivers are asked at the same time.
const SLOTS: usize = 4;
/// A driver that takes longer gives up its slot. A healthy driver is faster.
const LONGEST_HOLD: Duration = Duration::from_millis(100);
/// No driver waits longer for a slot. A hundred healthy drivers are faster.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// The slots of this process.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyLimiter(Arc<Semaphore>);

impl ConcurrencyLimiter {
    pub(crate) fn new() -> ConcurrencyLimiter {
        ConcurrencyLimiter(Arc::new(Semaphore::new(SLOTS)))
    }

    /// Does the work when a slot is free, or after the longest wait. The box is made only then: the
    /// future that asks needs many times the memory of the future that waits.
    pub(crate) async fn run<T, W: Future<Output = T>>(&self, work: impl FnOnce() -> W) -> T {
        let slot = timeout(LONGEST_WAIT, self.0.acquire()).await;
        let mut work = Box::pin(work());
        tokio::select! {
            done = &mut work => return done,
            () = sleep(LONGEST_HOLD) => drop(slot),
        }
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn drivers_that_hang_do_not_keep_others_waiting() {
        let limiter = ConcurrencyLimiter::new();
        let hanging: Vec<_> = (0..100 * SLOTS)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.run(pending::<()>).await })
            })
            .collect();
        tokio::task::yield_now().await;
        let begun = Instant::now();
        limiter.run(|| async {}).await;
        assert!(begun.elapsed() <= LONGEST_WAIT, "{:?}", begun.elapsed());
        // They have given up their slots, although they still hang.
        tokio::time::sleep(2 * LONGEST_WAIT).await;
        let begun = Instant::now();
        limiter.run(|| async {}).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        hanging.iter().for_each(|task| task.abort());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_work_at_the_same_time_than_there_are_slots() {
        let limiter = ConcurrencyLimiter::new();
        let at_work = Arc::new(Semaphore::new(SLOTS));
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let (limiter, at_work) = (limiter.clone(), at_work.clone());
                tokio::spawn(async move {
                    let work = || async {
                        let _slot = at_work.try_acquire().expect("no more than there are slots");
                        sleep(Duration::from_micros(100)).await;
                    };
                    limiter.run(work).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}
