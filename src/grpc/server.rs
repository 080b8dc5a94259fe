//! A gRPC server on a Unix socket: each connection has a service of its own.

use std::convert::Infallible;
use std::future::Future;
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
use tonic::body::Body;
use tonic::codegen::Service;

pub(crate) use super::connections::Activity;
use super::connections::Connections;
use crate::os::peer::Peer;

/// While the limit of connections is reached, a connection without a request makes room after this
/// time.
const GRACE: Duration = Duration::from_millis(100);

/// The limits of a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Open connections at the same time.
    pub(crate) connections: usize,
    /// The server closes a connection that has sent no request after this time.
    pub(crate) first: Duration,
    /// The server closes a connection this long after its last request.
    pub(crate) idle: Duration,
}

/// Answers a call where it is read, and in a task of its own only if the answer has to wait. With a
/// task for each call, the server would read the calls of a thousand clients before it answers the
/// first.
#[derive(Clone, Copy)]
struct AtOnce;

/// Accepts connections until `retired` resolves, and then waits for the open connections to end.
/// `connected` serves a connection of a trusted peer, with [`serve_connection`].
pub(crate) async fn serve<F>(
    listener: UnixListener,
    limits: Limits,
    connected: impl Fn(UnixStream, Peer, Activity) -> F,
    mut retired: oneshot::Receiver<()>,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = Connections::new(limits.connections, GRACE);
    loop {
        let stream = tokio::select! {
            _ = &mut retired => break,
            (stream, _) = connections.accept(|| listener.accept()) => stream,
        };
        match Peer::of(&stream) {
            Ok(peer) if peer.is_trusted() => {
                let activity = Activity::default();
                connections.add(connected(stream, peer, activity.clone()), activity);
            }
            Ok(peer) => tracing::warn!(
                pid = peer.pid,
                uid = peer.uid,
                "turned away a caller that is not root"
            ),
            Err(error) => tracing::debug!(%error, "a caller left before it could be identified"),
        }
    }
    drop(listener);
    connections.finish().await;
}

/// Serves HTTP/2 until the connection ends or sends no request within the limits.
pub(crate) async fn serve_connection<I, S>(io: I, service: S, activity: Activity, limits: Limits)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static,
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
        () = activity.stopped(limits.first, limits.idle) => tracing::debug!("closed a connection without a request"),
    }
}

impl<F> Executor<F> for AtOnce
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, call: F) {
        let mut call = Box::pin(call);
        // No task needs a wake-up: a call that has to wait is polled again by its own task.
        let mut context = Context::from_waker(Waker::noop());
        if call.as_mut().poll(&mut context).is_pending() {
            tokio::spawn(call);
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
}
