//! A gRPC connection to a Unix socket.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::sleep;
use tonic::transport::{Channel, Endpoint, Error, Uri};

/// Connects to `path`, once: tonic would dial anew when the connection ends, behind the caller's back.
pub(crate) async fn connect(path: &Path) -> Result<Channel, ConnectError> {
    let mut only = Some(dial(path.to_owned()).await.map_err(ConnectError::Io)?);
    let again = move || {
        let stream = only.take();
        async move {
            let closed =
                || io::Error::new(io::ErrorKind::NotConnected, "the connection was closed");
            stream.map(TokioIo::new).ok_or_else(closed)
        }
    };
    handshake(Endpoint::from_static("http://localhost"), again).await
}

/// Connects for a client that calls itself so and, as grpc-go does, connects again when the connection
/// has ended: a registrar that restarts in the middle of a registration may still hear how it ended.
pub(crate) async fn connect_as(
    path: &Path,
    user_agent: &'static str,
    redial: Redial,
) -> Result<Channel, ConnectError> {
    let endpoint = Endpoint::from_static("http://localhost").user_agent(user_agent);
    let endpoint = endpoint.map_err(ConnectError::Handshake)?;
    let path = path.to_owned();
    let (ended, mut has_ended) = mpsc::unbounded_channel();
    let first = Watched::new(dial(path.clone()).await.map_err(ConnectError::Io)?, &ended);
    let ready = Arc::new(Mutex::new(Some(first)));
    if let Redial::Paced(pause) = redial {
        let (ready, path, ended) = (Arc::clone(&ready), path.clone(), ended.downgrade());
        // Ends with the channel, which has the only strong sender.
        tokio::spawn(async move {
            while has_ended.recv().await.is_some() {
                let mut pause = pause;
                while let Some(ended) = ended.upgrade() {
                    if let Ok(stream) = dial(path.clone()).await {
                        *ready.lock().unwrap() = Some(Watched::new(stream, &ended));
                        break;
                    }
                    drop(ended);
                    sleep(pause).await;
                    pause = pause.mul_f32(1.6);
                }
            }
        });
    }
    let again = move || {
        let (stream, path, ended) = (ready.lock().unwrap().take(), path.clone(), ended.clone());
        async move {
            match (stream, redial) {
                (Some(stream), _) => Ok(stream),
                (None, Redial::WithTheNextCall) => {
                    dial(path).await.map(|stream| Watched::new(stream, &ended))
                }
                (None, Redial::Paced(_)) => Err(io::Error::new(
                    io::ErrorKind::NotConnected,
                    "all SubConns are in TransientFailure",
                )),
            }
        }
    };
    handshake(endpoint, again).await
}

/// When a connection that has ended is made again.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Redial {
    /// At once, and then after this pause, each 1.6 times as long as the last; a call that comes
    /// before fails. So does grpc-go before 1.41.
    Paced(Duration),
    /// Later ones rest until there is a call.
    WithTheNextCall,
}

/// A stream that tells when it is dropped, which hyper does when the connection has ended.
struct Watched {
    stream: UnixStream,
    ended: mpsc::WeakUnboundedSender<()>,
}

impl Watched {
    fn new(stream: UnixStream, ended: &mpsc::UnboundedSender<()>) -> TokioIo<Self> {
        let ended = ended.downgrade();
        TokioIo::new(Self { stream, ended })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(ended) = self.ended.upgrade() {
            // Nobody listens where nothing is paced.
            match ended.send(()) {
                Ok(()) | Err(_) => {}
            }
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
