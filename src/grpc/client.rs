//! A gRPC client's connection to a Unix socket.

use std::error::Error as _;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use thiserror::Error;
use tokio::net::UnixStream;
use tonic::body::Body;
use tonic::codegen::Service;

use crate::os::text::printable;

/// Large enough for each answer to our calls, and small enough that a hostile server cannot fill
/// the memory.
const WINDOW: u32 = 65_535;

/// Why a connection could not be opened.
#[derive(Debug, Error)]
pub(crate) enum ConnectError {
    #[error("cannot connect: {0}")]
    Connect(#[from] io::Error),
    #[error("the peer does not speak HTTP/2: {0}")]
    Handshake(#[from] hyper::Error),
}

/// The sending half; a generated client gets a clone of it.
#[derive(Clone)]
pub(crate) struct Channel {
    requests: SendRequest<Body>,
}

/// Resolves when the connection has ended, with the error if it did not end in order. The
/// connection makes progress only while this is polled.
pub(crate) type Ended = Pin<Box<dyn Future<Output = Result<(), Broken>> + Send>>;

/// Why a connection broke: the error of hyper, and the HTTP/2 error below it.
#[derive(Debug, Error)]
#[error("{}", words(.0))]
pub(crate) struct Broken(hyper::Error);

/// The HTTP/2 error may contain up to 16 KiB of text from the peer: the debug data of its GOAWAY.
fn words(error: &hyper::Error) -> String {
    let cause = error.source().map(|cause| format!(": {cause}"));
    printable(&format!("{error}{}", cause.unwrap_or_default()))
}

/// Connects to the socket at `path`. The caller sets the deadline.
pub(crate) async fn connect(path: &Path) -> Result<(Channel, Ended), ConnectError> {
    over(UnixStream::connect(path).await?).await
}

/// The same over a connected stream. The caller sets the deadline.
pub(crate) async fn over(stream: UnixStream) -> Result<(Channel, Ended), ConnectError> {
    let (requests, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake(TokioIo::new(stream))
        .await?;
    let ended = Box::pin(async move { connection.await.map_err(Broken) });
    Ok((Channel { requests }, ended))
}

/// The path in an address of gRPC, `unix:PATH` or `unix://PATH`. A plain path stays as it is.
pub(crate) fn without_scheme(address: &str) -> &str {
    match address.strip_prefix("unix:") {
        Some(path) => path.strip_prefix("//").unwrap_or(path),
        None => address,
    }
}

/// The origin to give a generated client next to a [`Channel`], for the `:authority` that it sends.
/// A Unix socket has no better name.
pub(crate) fn origin() -> Uri {
    Uri::from_static("http://localhost")
}

impl Service<Request<Body>> for Channel {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.requests.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.requests.send_request(request))
    }
}
