//! A gRPC connection to a Unix socket.

use std::io;
use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};

/// Connects to `path`, once: tonic would dial anew when the connection ends, behind the caller's back.
pub(crate) async fn connect(path: &Path) -> Result<Channel, ConnectError> {
    let mut only = Some(dial(path.to_owned()).await.map_err(ConnectError::Io)?);
    let again = move || {
        let stream = only.take();
        async move {
            let closed =
                || io::Error::new(io::ErrorKind::NotConnected, "the connection was closed");
            stream.ok_or_else(closed)
        }
    };
    handshake(Endpoint::from_static("http://localhost"), again).await
}

/// Connects for a client that calls itself so, and dials anew with the next call when the connection
/// has ended: grpc-go does the same, and a registrar that restarts in the middle of a registration
/// still hears how it ended.
pub(crate) async fn connect_as(
    path: &Path,
    user_agent: &'static str,
) -> Result<Channel, ConnectError> {
    let endpoint = Endpoint::from_static("http://localhost").user_agent(user_agent);
    let endpoint = endpoint.map_err(ConnectError::Handshake)?;
    let path = path.to_owned();
    let mut first = Some(dial(path.clone()).await.map_err(ConnectError::Io)?);
    let again = move || {
        let (stream, path) = (first.take(), path.clone());
        async move {
            match stream {
                Some(stream) => Ok(stream),
                None => dial(path).await,
            }
        }
    };
    handshake(endpoint, again).await
}

type Stream = TokioIo<UnixStream>;

async fn dial(path: PathBuf) -> io::Result<Stream> {
    UnixStream::connect(path).await.map(TokioIo::new)
}

async fn handshake<F>(
    endpoint: Endpoint,
    mut connect: impl FnMut() -> F + Send + 'static,
) -> Result<Channel, ConnectError>
where
    F: Future<Output = io::Result<Stream>> + Send + 'static,
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
