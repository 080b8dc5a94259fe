//! A connection to the fake driver: counted while it is open, and closed by the server's policy.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tonic::transport::server::Connected;

use super::Shared;
use super::behaviour::Closing;

/// NO_ERROR, with the highest stream id: the server answers all streams.
const GOAWAY: &[u8] = b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0";
/// No bytes for this long, so no call is in progress.
const PAUSE: Duration = Duration::from_millis(20);

/// Resolves when the server closes the connection, with the bytes that it sends first.
type End = Pin<Box<dyn Future<Output = &'static [u8]> + Send>>;

pub(super) struct Connection {
    stream: UnixStream,
    open: Arc<AtomicUsize>,
    /// The time of the last bytes.
    said: Arc<Mutex<Instant>>,
    end: End,
    ended: bool,
}

impl Connection {
    pub(super) fn new(stream: UnixStream, shared: &Shared) -> Self {
        shared.met.fetch_add(1, Ordering::SeqCst);
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let said = Arc::new(Mutex::new(Instant::now()));
        Self {
            stream,
            open: Arc::clone(&shared.connections),
            end: Box::pin(end(shared.closing.subscribe(), Arc::clone(&said))),
            said,
            ended: false,
        }
    }

    fn said(&self) {
        *self.said.lock().unwrap() = Instant::now();
    }
}

async fn end(mut closing: watch::Receiver<Closing>, said: Arc<Mutex<Instant>>) -> &'static [u8] {
    let opened = Instant::now();
    loop {
        let last = *said.lock().unwrap();
        let (at, words) = match *closing.borrow_and_update() {
            Closing::Never => (None, GOAWAY),
            Closing::Idle(time) => (Some(last + time), GOAWAY),
            Closing::IdleUnsaid(time) => (Some(last + time), &b""[..]),
            Closing::Aged(time) => (Some((opened + time).max(last + PAUSE)), GOAWAY),
        };
        let due = async {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            // Bytes may have arrived meanwhile.
            () = due => if last == *said.lock().unwrap() {
                return words;
            },
            changed = closing.changed() => if changed.is_err() {
                std::future::pending::<()>().await;
            },
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connected for Connection {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ended {
            return Poll::Ready(Ok(()));
        }
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.said();
            return read;
        }
        let Poll::Ready(words) = self.end.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        self.ended = true;
        // The client may have closed the connection at the same moment.
        drop(self.stream.try_write(words));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.said();
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
