//! A gRPC connection to a Unix socket.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::transport::{Channel, Endpoint, Error, Uri};

/// Connects to `path` once: tonic by itself would dial again when the connection ends, unseen by the
/// caller.
pub(crate) async fn connect(path: &Path) -> Result<Channel, ConnectError> {
    let stream = dial(path.to_owned()).await.map_err(ConnectError::Io)?;
    handshake(Endpoint::from_static("http://localhost"), once(stream)).await
}

/// Connects with this user agent and, as grpc-go does, connects again when the connection has ended: a
/// registrar that restarts during a registration may still get the Notify.
pub(crate) async fn connect_as(
    path: &Path,
    user_agent: &'static str,
    redial: Redial,
) -> Result<Line, ConnectError> {
    let endpoint = Endpoint::from_static("http://localhost").user_agent(user_agent);
    let endpoint = endpoint.map_err(ConnectError::Handshake)?;
    let path = path.to_owned();
    match redial {
        Redial::WithTheNextCall => {
            let first = dial(path.clone()).await.map_err(ConnectError::Io)?;
            let mut first = Some(first);
            // tonic asks for another one with the next call.
            let again = move || {
                let (first, path) = (first.take(), path.clone());
                async move {
                    match first {
                        Some(stream) => Ok(TokioIo::new(stream)),
                        None => dial(path).await.map(TokioIo::new),
                    }
                }
            };
            let channel = handshake(endpoint, again).await?;
            Ok(Line(Arc::new(Mutex::new(channel))))
        }
        Redial::Paced(pause) => {
            let (ended, has_ended) = mpsc::unbounded_channel();
            let first = connect_watched(&endpoint, &path, ended).await?;
            let line = Line(Arc::new(Mutex::new(first)));
            tokio::spawn(keep_up(
                Arc::downgrade(&line.0),
                endpoint,
                path,
                pause,
                has_ended,
            ));
            Ok(line)
        }
    }
}

/// A connection that may be replaced before the next call.
pub(crate) struct Line(Arc<Mutex<Channel>>);

impl Line {
    /// The present connection, alive or not.
    pub(crate) fn channel(&self) -> Channel {
        self.0.lock().unwrap().clone()
    }
}

/// Connects again each time the connection has ended, for as long as a client holds the line.
async fn keep_up(
    line: Weak<Mutex<Channel>>,
    endpoint: Endpoint,
    path: PathBuf,
    pause: Duration,
    mut has_ended: mpsc::UnboundedReceiver<()>,
) {
    while has_ended.recv().await.is_some() {
        let mut pause = pause;
        loop {
            let (ended, next) = mpsc::unbounded_channel();
            let connected = connect_watched(&endpoint, &path, ended).await;
            let Some(line) = line.upgrade() else { return };
            if let Ok(channel) = connected {
                *line.lock().unwrap() = channel;
                has_ended = next;
                break;
            }
            drop(line);
            sleep(pause).await;
            pause = pause.mul_f32(1.6);
        }
    }
}

/// One connection, which reports its end.
async fn connect_watched(
    endpoint: &Endpoint,
    path: &Path,
    ended: mpsc::UnboundedSender<()>,
) -> Result<Channel, ConnectError> {
    let stream = dial(path.to_owned()).await.map_err(ConnectError::Io)?;
    handshake(endpoint.clone(), once(Watched { stream, ended })).await
}

/// Gives the stream to the first caller.
fn once<S>(stream: S) -> impl FnMut() -> std::future::Ready<io::Result<TokioIo<S>>> {
    let mut only = Some(TokioIo::new(stream));
    move || {
        let closed = || io::Error::new(io::ErrorKind::NotConnected, "the connection was closed");
        std::future::ready(only.take().ok_or_else(closed))
    }
}

/// When the client connects again after a connection has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Redial {
    /// At once, and then after this pause, which grows 1.6 times with each attempt; calls before that
    /// fail. grpc-go before 1.41 does so.
    Paced(Duration),
    /// With the next call, as later releases of grpc-go do.
    WithTheNextCall,
}

/// A stream that reports when it is dropped: hyper drops it when the connection has ended.
struct Watched {
    stream: UnixStream,
    ended: mpsc::UnboundedSender<()>,
}

impl Drop for Watched {
    fn drop(&mut self) {
        match self.ended.send(()) {
            // No client holds the line any more.
            Ok(()) | Err(_) => {}
        }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

async fn dial(path: PathBuf) -> io::Result<UnixStream> {
    UnixStream::connect(path).await
}

async fn handshake<F, S>(
    endpoint: Endpoint,
    mut connect: impl FnMut() -> F + Send + 'static,
) -> Result<Channel, ConnectError>
where
    F: Future<Output = io::Result<TokioIo<S>>> + Send + 'static,
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    endpoint
        .connect_with_connector(tower::service_fn(move |_: Uri| connect()))
        .await
        .map_err(ConnectError::Handshake)
}

#[derive(Debug)]
pub(crate) enum ConnectError {
    Io(io::Error),
    Handshake(Error),
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => error.fmt(out),
            Self::Handshake(error) => error.fmt(out),
        }
    }
}
