//! The open connections of a listener: how many it accepts, and which of them make room for others.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// The pause after a failure to accept. EMFILE and similar errors pass by themselves; without a
/// pause the loop would spin.
const PAUSE: Duration = Duration::from_millis(100);

/// How many idle connections are closed at once when no descriptors are left.
const RETURNED: usize = 64;

/// The open connections. They close when this is dropped.
pub(crate) struct Connections {
    limit: usize,
    grace: Duration,
    tasks: JoinSet<()>,
    /// The connections without a request when the last connection came or went, the oldest first.
    idle: VecDeque<Idle>,
    /// The last accept failed.
    failing: bool,
}

struct Idle {
    since: Instant,
    activity: Activity,
    task: AbortHandle,
}

/// A service reports here that its connection is in use: it sends `true` with each request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(watch::Sender<bool>);

impl Connections {
    /// When `limit` connections are open, the oldest connection without a request makes room as
    /// soon as it is older than `grace`: a client that has a request has sent it by then.
    /// Connections with a request stay.
    pub(crate) fn new(limit: usize, grace: Duration) -> Connections {
        Connections {
            limit,
            grace,
            tasks: JoinSet::new(),
            idle: VecDeque::new(),
            failing: false,
        }
    }

    /// Waits for the next connection, and makes room for it. Nothing is lost when this is
    /// cancelled, if that is true for `accept`.
    pub(crate) async fn accept<S, F>(&mut self, accept: impl Fn() -> F) -> S
    where
        F: Future<Output = io::Result<S>>,
    {
        loop {
            let is_full = self.tasks.len() >= self.limit;
            let eviction = if is_full { self.next_eviction() } else { None };
            tokio::select! {
                () = sleep_until(eviction.unwrap_or_else(Instant::now)), if eviction.is_some() => {
                    self.evict_oldest_idle();
                }
                accepted = accept(), if !is_full => match accepted {
                    Ok(stream) => {
                        self.failing = false;
                        return stream;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut self.failing, true) {
                            tracing::warn!(%error, "cannot accept a connection; retrying");
                        }
                        sleep(PAUSE).await;
                        // Idle connections give their descriptors back.
                        self.drop_active();
                        (0..RETURNED).for_each(|_| self.evict_oldest_idle());
                    }
                },
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    log(ended);
                    self.drop_active();
                }
            }
        }
    }

    /// Adds a connection that this future serves.
    pub(crate) fn add(
        &mut self,
        serve: impl Future<Output = ()> + Send + 'static,
        activity: Activity,
    ) {
        self.drop_active();
        let task = self.tasks.spawn(serve);
        self.idle.push_back(Idle {
            since: Instant::now(),
            activity,
            task,
        });
    }

    /// Waits until all connections have ended.
    pub(crate) async fn finish(mut self) {
        while let Some(ended) = self.tasks.join_next().await {
            log(ended);
        }
    }

    /// Removes the connections that are no longer idle from the queue: a handle keeps its task's
    /// memory.
    fn drop_active(&mut self) {
        let is_idle = |idle: &Idle| !idle.task.is_finished() && !idle.activity.is_in_use();
        self.idle.retain(is_idle);
        if self.idle.is_empty() {
            self.idle = VecDeque::new();
        }
    }

    /// None while all connections have a request.
    fn next_eviction(&mut self) -> Option<Instant> {
        self.drop_active();
        self.idle.front().map(|oldest| oldest.since + self.grace)
    }

    fn evict_oldest_idle(&mut self) {
        if let Some(oldest) = self.idle.pop_front()
            && !oldest.activity.is_in_use()
        {
            tracing::debug!("closed an idle connection to make room");
            oldest.task.abort();
        }
    }
}

impl Activity {
    pub(crate) fn touch(&self) {
        self.0.send_replace(true);
    }

    fn is_in_use(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the first request does not come within `first`, or the next within `idle`.
    pub(super) async fn stopped(&self, first: Duration, idle: Duration) {
        let mut requests = self.0.subscribe();
        let mut patience = if self.is_in_use() { idle } else { first };
        // Each request starts the time again.
        while timeout(patience, requests.changed()).await.is_ok() {
            patience = idle;
        }
    }
}

fn log(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && !error.is_cancelled()
    {
        tracing::error!(%error, "serving a connection failed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a clock that jumps to the next deadline.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_request_ends_soon_and_with_one_later() {
        let (first, idle) = (Duration::from_secs(5), Duration::from_secs(300));
        let started = Instant::now();
        let activity = Activity::default();
        activity.stopped(first, idle).await;
        assert_eq!(started.elapsed().as_secs(), 5);

        let started = Instant::now();
        activity.touch();
        let again = activity.clone();
        tokio::spawn(async move {
            sleep(Duration::from_secs(200)).await;
            again.touch();
        });
        activity.stopped(first, idle).await;
        assert_eq!(started.elapsed().as_secs(), 500);
    }
}
