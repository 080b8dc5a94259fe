//! Drivers take turns at being asked: a hundred that appear at once would else have a hundred
//! connections at once, whose memory the process keeps.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// How many are asked at one time.
const TURNS: usize = 4;
/// Longer than a driver takes that is well. One that hangs holds its turn for no longer.
const LONGEST_TURN: Duration = Duration::from_millis(100);
/// Longer than a hundred take that are well. Nobody waits for a turn for longer.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// The turns of one process.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyLimiter(Arc<Semaphore>);

impl ConcurrencyLimiter {
    pub(crate) fn new() -> ConcurrencyLimiter {
        ConcurrencyLimiter(Arc::new(Semaphore::new(TURNS)))
    }

    /// Does the work when it is its turn, or when that has been waited for long enough. It is in
    /// a box that is made only then: what it takes to ask is many times what it takes to wait.
    pub(crate) async fn take<T, W: Future<Output = T>>(&self, work: impl FnOnce() -> W) -> T {
        let turn = timeout(LONGEST_WAIT, self.0.acquire()).await;
        let mut work = Box::pin(work());
        tokio::select! {
            done = &mut work => return done,
            () = sleep(LONGEST_TURN) => drop(turn),
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
    async fn those_who_hang_do_not_keep_others_from_their_turn() {
        let turns = ConcurrencyLimiter::new();
        let hanging: Vec<_> = (0..100 * TURNS)
            .map(|_| {
                let turns = turns.clone();
                tokio::spawn(async move { turns.take(pending::<()>).await })
            })
            .collect();
        tokio::task::yield_now().await;
        let begun = Instant::now();
        turns.take(|| async {}).await;
        assert!(begun.elapsed() <= LONGEST_WAIT, "{:?}", begun.elapsed());
        // Their turns are over, although they still hang.
        tokio::time::sleep(2 * LONGEST_WAIT).await;
        let begun = Instant::now();
        turns.take(|| async {}).await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        hanging.iter().for_each(|task| task.abort());
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_work_at_one_time_than_there_are_turns() {
        let turns = ConcurrencyLimiter::new();
        let at_work = Arc::new(Semaphore::new(TURNS));
        let tasks: Vec<_> = (0..100)
            .map(|_| {
                let (turns, at_work) = (turns.clone(), at_work.clone());
                tokio::spawn(async move {
                    let work = || async {
                        let _one = at_work.try_acquire().expect("no more than there are turns");
                        sleep(Duration::from_micros(100)).await;
                    };
                    turns.take(work).await;
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    }
}
