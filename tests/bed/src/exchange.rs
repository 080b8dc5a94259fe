//! Calls over a control socket as bytes: a test sends and answers what another version would.

use std::future::Future;
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use prost::bytes::{Buf, BufMut};
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};

use crate::control::on_channel;
use crate::worker::Worker;

const SERVICE: &str = "nsdr.control.v1.Control";

/// Calls a method with these bytes, and returns the bytes of the answer; of several answers the first.
pub fn call(socket: &Path, method: &str, request: &[u8]) -> Result<Vec<u8>, Status> {
    let path = format!("/{SERVICE}/{method}").parse().unwrap();
    let request = request.to_vec();
    on_channel(socket, async move |channel| {
        let mut client = tonic::client::Grpc::new(channel);
        let closed = |error| Status::unavailable(format!("{error}"));
        client.ready().await.map_err(closed)?;
        // On the wire, one answer and the first answer of a stream are the same.
        let answers = client.server_streaming(Request::new(request), path, Bytes);
        let first = answers.await?.into_inner().message().await?;
        first.ok_or_else(|| Status::unavailable("the stream ended without an answer"))
    })
}

/// What a [`ByteServer`] answers to a method and the bytes of its request.
type Answer = dyn Fn(&str, &[u8]) -> Result<Vec<u8>, Status> + Send + Sync;

/// A server in the place of the daemon, which answers with bytes; dropping it ends it.
pub struct ByteServer {
    _worker: Worker,
}

impl ByteServer {
    /// Listens on a path where no file is.
    pub fn start(
        socket: &Path,
        answer: impl Fn(&str, &[u8]) -> Result<Vec<u8>, Status> + Send + Sync + 'static,
    ) -> ByteServer {
        let listener = StdListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let service = Service(Arc::new(answer));
        let _worker = Worker::spawn("byte-server", move || async move {
            let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
            tonic::transport::Server::builder()
                .add_service(service)
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        ByteServer { _worker }
    }
}

#[derive(Clone)]
struct Service(Arc<Answer>);

impl NamedService for Service {
    const NAME: &'static str = SERVICE;
}

impl tower::Service<http::Request<Body>> for Service {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = Arc::clone(&self.0);
        let path = request.uri().path().to_owned();
        let unary = tower::service_fn(move |request: Request<Vec<u8>>| {
            let method = path.rsplit('/').next().unwrap_or_default();
            let answered = answer(method, request.get_ref());
            std::future::ready(answered.map(Response::new))
        });
        Box::pin(async move { Ok(tonic::server::Grpc::new(Bytes).unary(unary, request).await) })
    }
}

/// A message as its bytes.
#[derive(Clone, Copy, Default)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Bytes;
    type Decoder = Bytes;

    fn encoder(&mut self) -> Bytes {
        Bytes
    }

    fn decoder(&mut self) -> Bytes {
        Bytes
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut message = vec![0; buffer.remaining()];
        buffer.copy_to_slice(&mut message);
        Ok(Some(message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_as_they_were_sent() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("control.sock");
        let _server = ByteServer::start(&socket, |method, request| match method {
            "Publish" => Ok([request, b"!"].concat()),
            _ => Err(Status::failed_precondition(method)),
        });
        assert_eq!(call(&socket, "Publish", b"\x00\xff").unwrap(), b"\x00\xff!");
        let refused = call(&socket, "Withdraw", b"").unwrap_err();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
        assert_eq!(refused.message(), "Withdraw");
    }
}
