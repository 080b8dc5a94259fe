//! An HTTP connection, and the limits of all of them.

use std::convert::Infallible;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::time::timeout;

use super::caller::Caller;
use super::listener::{Listener, Stream};
use super::page::Pages;
use crate::grpc::connections::{Activity, Connections};

/// Open connections at the same time. One more closes the oldest: clients that hold connections open
/// without a request do not keep other clients out.
const MOST: usize = 64;
/// The longest time from the connection to the end of its answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// The longest time from the connection to the end of the request's head.
const HEAD: Duration = Duration::from_secs(5);
/// The longest head of a request; hyper's minimum is 8 KiB.
const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// Serves each connection that the listener accepts.
pub(super) async fn serve(listener: &Listener, pages: &Pages) -> Infallible {
    // The limit includes the new connection, for which the oldest makes room at once.
    let mut connections = Connections::new(MOST + 1, Duration::ZERO);
    loop {
        let (stream, caller) = connections.accept(|| listener.accept()).await;
        // Never in use for the limiter: a request does not protect its connection.
        connections.add(answer(stream, caller, pages.clone()), Activity::default());
    }
}

/// The client would not read the answer.
#[derive(Debug, Error)]
#[error("the client has left")]
struct Left;

/// Answers one request and closes the connection: a scrape is rare, and a closed connection needs no
/// watch.
pub(super) async fn answer(stream: Box<dyn Stream>, caller: Caller, pages: Pages) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (caller, pages) = (caller.clone(), pages.clone());
        async move {
            if caller.has_left() {
                return Err(Left);
            }
            Ok(pages.answer(request.method(), request.uri().path()).await)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(LONGEST_HEAD)
        .max_headers(MOST_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match timeout(DEADLINE, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an http connection ended with an error"),
        Err(_) => tracing::debug!("closed an http connection that took too long"),
    }
}
