//! One gRPC connection to a Unix socket, made once and never made again behind the caller's back.

use std::path::Path;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};

/// Connects to `path`.
///
/// tonic would dial anew when the connection ends, which the kubelet, with one connection for
/// one registration, does not do: the connector hands out the stream that it was given and then
/// no other.
pub(crate) async fn connect(path: &Path) -> Result<Channel, ConnectError> {
    connect_with(path, Endpoint::from_static("http://localhost")).await
}

/// The same for a client that calls itself so.
pub(crate) async fn connect_as(
    path: &Path,
    user_agent: &'static str,
) -> Result<Channel, ConnectError> {
    let endpoint = Endpoint::from_static("http://localhost").user_agent(user_agent);
    connect_with(path, endpoint.map_err(ConnectError::Handshake)?).await
}

async fn connect_with(path: &Path, endpoint: Endpoint) -> Result<Channel, ConnectError> {
    let stream = UnixStream::connect(path).await.map_err(ConnectError::Io)?;
    let mut only = Some(TokioIo::new(stream));
    endpoint
        .connect_with_connector(tower::service_fn(move |_: Uri| {
            let stream = only.take();
            async move {
                stream.ok_or_else(|| {
                    std::io::Error::new(
                        std::io::ErrorKind::NotConnected,
                        "the connection was closed",
                    )
                })
            }
        }))
        .await
        .map_err(ConnectError::Handshake)
}

#[derive(Debug)]
pub(crate) enum ConnectError {
    Io(std::io::Error),
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
