//! Accepts connections on a Unix socket and serves each with a gRPC service of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tonic::body::Body;
use tonic::codegen::Service;

pub(crate) use crate::os::peer::Peer;

/// While all places are taken, one that has asked nothing for so long makes room. Whoever means to
/// ask has done so by then.
const GRACE: Duration = Duration::from_millis(100);

/// How many of those make room at a time when there are no descriptors left.
const RETURNED: usize = 64;

/// How much a socket bears from those who may call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections open at one time. When there are as many, those that have asked nothing make
    /// room, and those that have are kept.
    pub(crate) connections: usize,
    /// A connection that has not asked anything yet is closed after this.
    pub(crate) first: Duration,
    /// A connection that has not asked anything more for this long is closed.
    pub(crate) idle: Duration,
}

/// Makes the service for one connection, around its I/O.
pub(crate) trait MakeService: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    type Service: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static;

    /// Called once for each connection of a trusted peer.
    fn receive(&self, stream: UnixStream, peer: Peer, busy: Activity) -> (Self::Io, Self::Service);
}

/// Told by the service that its connection is in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity(Arc<Usage>);

#[derive(Debug, Default)]
struct Usage {
    touched: tokio::sync::Notify,
    asked: AtomicBool,
}

impl Activity {
    pub(crate) fn touch(&self) {
        self.0.asked.store(true, Ordering::Relaxed);
        self.0.touched.notify_one();
    }

    fn has_asked(&self) -> bool {
        self.0.asked.load(Ordering::Relaxed)
    }
}

/// The connections that are open.
#[derive(Default)]
struct Connections {
    tasks: JoinSet<()>,
    /// Those that had not asked anything when the last one came or went, the oldest first.
    silent: VecDeque<Silent>,
}

struct Silent {
    since: Instant,
    busy: Activity,
    task: AbortHandle,
}

impl Connections {
    fn join(&mut self, conversation: impl Future<Output = ()> + Send + 'static, busy: Activity) {
        self.forget_those_who_spoke();
        let task = self.tasks.spawn(conversation);
        self.silent.push_back(Silent {
            since: Instant::now(),
            busy,
            task,
        });
    }

    /// One that is held on to keeps its task's memory.
    fn forget_those_who_spoke(&mut self) {
        let is_silent = |one: &Silent| !one.task.is_finished() && !one.busy.has_asked();
        self.silent.retain(is_silent);
        if self.silent.is_empty() {
            self.silent = VecDeque::new();
        }
    }

    /// When one more that has said nothing may be closed; never while all have asked something.
    fn patience_ends(&mut self) -> Option<Instant> {
        self.forget_those_who_spoke();
        self.silent.front().map(|oldest| oldest.since + GRACE)
    }

    fn evict_oldest_idle(&mut self) {
        if let Some(oldest) = self.silent.pop_front()
            && !oldest.busy.has_asked()
        {
            tracing::debug!("closed a connection that asked nothing, for all places are taken");
            oldest.task.abort();
        }
    }
}

/// Accepts until it is retired, and then sees the open connections to their end.
pub(crate) async fn serve<R: MakeService>(
    listener: UnixListener,
    limits: Limits,
    reception: R,
    mut retired: oneshot::Receiver<()>,
) {
    let mut crowd = Connections::default();
    let mut failing = false;
    loop {
        let is_full = crowd.tasks.len() >= limits.connections;
        let patience_ends = if is_full { crowd.patience_ends() } else { None };
        tokio::select! {
            _ = &mut retired => break,
            () = until(patience_ends), if is_full => crowd.evict_oldest_idle(),
            accepted = listener.accept(), if !is_full => match accepted {
                Ok((stream, _)) => {
                    failing = false;
                    receive(stream, limits, &reception, &mut crowd);
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(%error, "cannot accept a connection; trying again");
                    }
                    // EMFILE and its kin pass by themselves; without a pause this loop would spin.
                    tokio::time::sleep(GRACE).await;
                    // Those who hold descriptors for nothing give them back.
                    crowd.forget_those_who_spoke();
                    (0..RETURNED).for_each(|_| crowd.evict_oldest_idle());
                }
            },
            Some(ended) = crowd.tasks.join_next(), if !crowd.tasks.is_empty() => {
                note(ended);
                crowd.forget_those_who_spoke();
            }
        }
    }
    drop(listener);
    while let Some(ended) = crowd.tasks.join_next().await {
        note(ended);
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && !error.is_cancelled()
    {
        tracing::error!(%error, "serving a connection failed");
    }
}

fn receive<R: MakeService>(
    stream: UnixStream,
    limits: Limits,
    reception: &R,
    crowd: &mut Connections,
) {
    match Peer::of(&stream) {
        Ok(peer) if peer.is_trusted() => {
            let busy = Activity::default();
            let (io, service) = reception.receive(stream, peer, busy.clone());
            crowd.join(converse(io, service, busy.clone(), limits), busy);
        }
        Ok(peer) => tracing::warn!(
            pid = peer.pid,
            uid = peer.uid,
            "turned away a caller that is not root"
        ),
        Err(error) => tracing::debug!(%error, "a caller left before it could be identified"),
    }
}

async fn converse<I, S>(io: I, service: S, busy: Activity, limits: Limits)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let connection = http2::Builder::new(AtOnce)
        .timer(TokioTimer::new())
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(65_535)
        .max_concurrent_streams(16)
        .serve_connection(TokioIo::new(io), TowerToHyperService::new(service));
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "connection ended with an error");
        },
        () = idled(&busy.0.touched, limits) => tracing::debug!("closed a connection that asked nothing"),
    }
}

/// Answers a call where it is read, and as a task of its own only if the answer has to wait. With a
/// task for each call, a thousand callers that ask at once would all be read before the first has its
/// answer.
#[derive(Clone, Copy)]
struct AtOnce;

impl<F> Executor<F> for AtOnce
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut call = Box::pin(call);
        // Nobody needs to be woken: a call that has to wait is polled anew by its task.
        let mut context = Context::from_waker(Waker::noop());
        if call.as_mut().poll(&mut context).is_pending() {
            tokio::spawn(call);
        }
    }
}

async fn idled(touched: &tokio::sync::Notify, limits: Limits) {
    let mut patience = limits.first;
    loop {
        let deadline = Instant::now() + patience;
        tokio::select! {
            () = touched.notified() => patience = limits.idle,
            () = sleep_until(deadline) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_call_is_answered_where_it_is_read_unless_it_has_to_wait() {
        let (answer, mut answered) = oneshot::channel();
        AtOnce.execute(async move { answer.send(()) });
        assert_eq!(answered.try_recv(), Ok(()));

        let (go, wait) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        AtOnce.execute(async move {
            wait.await.unwrap();
            answer.send(())
        });
        go.send(()).unwrap();
        assert_eq!(answered.await, Ok(()));
    }

    /// With a clock that jumps to the next deadline.
    #[tokio::test(start_paused = true)]
    async fn who_asks_nothing_is_closed_soon_and_who_has_asked_is_borne_for_longer() {
        let limits = Limits {
            connections: 1,
            first: Duration::from_secs(5),
            idle: Duration::from_secs(300),
        };
        let started = Instant::now();
        let busy = Activity::default();
        idled(&busy.0.touched, limits).await;
        assert_eq!(started.elapsed().as_secs(), 5);

        let started = Instant::now();
        busy.touch();
        let again = busy.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(200)).await;
            again.touch();
        });
        idled(&busy.0.touched, limits).await;
        assert_eq!(started.elapsed().as_secs(), 500);
    }
}
