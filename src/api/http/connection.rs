//! Connections, and how much of them is borne.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::time::{sleep, timeout};

use super::caller::Caller;
use super::listener::{Listener, Stream};
use super::page::Pages;
use crate::os::task::Task;

/// Connections open at one time. One more closes the oldest: whoever holds connections open without
/// asking keeps nobody else out.
const MOST: usize = 64;
/// From the connection to the end of its answer.
const DEADLINE: Duration = Duration::from_secs(10);
/// From the connection to the end of the request's head.
const HEAD: Duration = Duration::from_secs(5);
/// The longest head of a request; hyper takes no less than 8 KiB.
const LONGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;

/// Those that are open.
pub(super) struct Connections {
    pages: Pages,
    open: VecDeque<Task>,
}

impl Connections {
    pub(super) fn new(pages: Pages) -> Connections {
        Connections {
            pages,
            open: VecDeque::new(),
        }
    }

    pub(super) async fn accept_from(&mut self, listener: &Listener) -> Infallible {
        loop {
            match listener.accept().await {
                Ok((stream, caller)) => {
                    self.open.retain(|connection| !connection.is_finished());
                    if self.open.len() >= MOST {
                        self.open.pop_front();
                    }
                    let answered = answer(stream, caller, self.pages.clone());
                    self.open.push_back(Task::spawn(answered));
                }
                Err(error) => {
                    // EMFILE and its kin pass by themselves; without a pause this loop would spin.
                    tracing::debug!(%error, "cannot accept an http connection");
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }
}

/// Nobody would read the answer.
#[derive(Debug, Error)]
#[error("the client has left")]
struct Left;

/// Answers one request. A connection is not kept for a second one: a scrape is rare, and what is
/// closed need not be watched.
pub(super) async fn answer(stream: Box<dyn Stream>, caller: Caller, pages: Pages) {
    let service = service_fn(move |request: Request<Incoming>| {
        let (caller, pages) = (caller.clone(), pages.clone());
        async move {
            if caller.has_left() {
                return Err(Left);
            }
            Ok(pages.answer(request.method(), request.uri().path()))
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
