//! Accepts connections on a Unix socket and serves each with a gRPC service of its own.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::unistd::{Uid, getuid};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep_until};
use tonic::body::Body;
use tonic::codegen::Service;

/// Who is at the other end of a connection, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    /// None when the process lives in a pid namespace that we cannot see into.
    pub(crate) pid: Option<u32>,
    uid: u32,
}

impl Peer {
    fn of(stream: &UnixStream) -> io::Result<Peer> {
        let credentials = stream.peer_cred()?;
        let pid = credentials
            .pid()
            .and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid > 0);
        Ok(Peer {
            pid,
            uid: credentials.uid(),
        })
    }

    fn is_trusted(&self) -> bool {
        let uid = Uid::from_raw(self.uid);
        uid.is_root() || uid == getuid()
    }
}

/// How much a socket bears from those who may call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections open at one time.
    pub(crate) connections: usize,
    /// A connection that has not asked anything yet is closed after this.
    pub(crate) first: Duration,
    /// A connection that has not asked anything more for this long is closed.
    pub(crate) idle: Duration,
}

/// Makes the service for one connection, around its I/O.
pub(crate) trait Reception: Send + Sync + 'static {
    type Io: AsyncRead + AsyncWrite + Unpin + Send + 'static;
    type Service: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static;

    /// Called once for each connection of a trusted peer.
    fn receive(&self, stream: UnixStream, peer: Peer, busy: Busy) -> (Self::Io, Self::Service);
}

/// Told by the service that its connection is in use.
#[derive(Clone, Debug)]
pub(crate) struct Busy(Arc<tokio::sync::Notify>);

impl Busy {
    pub(crate) fn touch(&self) {
        self.0.notify_one();
    }
}

/// Accepts until it is retired, and then sees the open connections to their end.
pub(crate) async fn serve<R: Reception>(
    listener: UnixListener,
    limits: Limits,
    reception: R,
    mut retired: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            _ = &mut retired => break,
            accepted = listener.accept(), if connections.len() < limits.connections => match accepted {
                Ok((stream, _)) => receive(stream, limits, &reception, &mut connections),
                Err(error) => {
                    // EMFILE and its kin pass by themselves; without a pause this loop would spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                note(ended);
            }
        }
    }
    drop(listener);
    while let Some(ended) = connections.join_next().await {
        note(ended);
    }
}

fn note(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && !error.is_cancelled()
    {
        tracing::error!(%error, "serving a connection failed");
    }
}

fn receive<R: Reception>(
    stream: UnixStream,
    limits: Limits,
    reception: &R,
    connections: &mut JoinSet<()>,
) {
    match Peer::of(&stream) {
        Ok(peer) if peer.is_trusted() => {
            let touched = Arc::new(tokio::sync::Notify::new());
            let (io, service) = reception.receive(stream, peer, Busy(touched.clone()));
            connections.spawn(converse(io, service, touched, limits));
        }
        Ok(peer) => tracing::warn!(
            pid = peer.pid,
            uid = peer.uid,
            "turned away a caller that is not root"
        ),
        Err(error) => tracing::debug!(%error, "a caller left before it could be identified"),
    }
}

async fn converse<I, S>(io: I, service: S, touched: Arc<tokio::sync::Notify>, limits: Limits)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(65_535)
        .max_concurrent_streams(16)
        .serve_connection(TokioIo::new(io), TowerToHyperService::new(service));
    tokio::select! {
        ended = connection => if let Err(error) = ended {
            tracing::debug!(%error, "connection ended with an error");
        },
        () = idled(&touched, limits) => tracing::debug!("closed a connection that asked nothing"),
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
