//! A hyper server answers requests through the adapter that it resets without the adapter.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, duplex};
use tokio::net::UnixStream;
use tokio::task::JoinHandle;

use super::client::{
    DATA, ENCODED, RAW, RST_STREAM, SETTINGS, Sent, conversation, field, get_info, request,
};
use super::server::split_frame;
use crate::grpc::authority::adapted;

const PROTOCOL_ERROR: [u8; 4] = [0, 0, 0, 1];
const DEADLINE: Duration = Duration::from_secs(10);

/// Answers each request with the authority, the path and the `host` that it came with.
async fn echo(request: Request<Incoming>) -> Result<Response<String>, Infallible> {
    let host = request.headers().get("host");
    let host = host.map_or("none", |host| host.to_str().expect("text"));
    Ok(Response::new(format!("{} {host}", request.uri())))
}

fn serve(
    io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> JoinHandle<hyper::Result<()>> {
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    tokio::spawn(server.serve_connection(TokioIo::new(io), service_fn(echo)))
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Answered(String),
    Reset([u8; 4]),
}

/// Sends one request by hand and waits for the body of its answer, or for its reset.
async fn call(mut client: impl AsyncRead + AsyncWrite + Unpin, authority: &str) -> Outcome {
    let settings = Sent::Other {
        kind: SETTINGS,
        flags: 0,
        stream: 0,
        payload: Vec::new(),
    };
    let mut fields = get_info(authority);
    fields.push(field("host", authority));
    let bytes = conversation(&[settings, request(1, fields)]);
    client.write_all(&bytes).await.expect("sent");

    let mut received = Vec::new();
    loop {
        while let Some((frame, rest)) = split_frame(&received) {
            match frame {
                (DATA, 1, body) => return Outcome::Answered(String::from_utf8_lossy(body).into()),
                (RST_STREAM, 1, code) => {
                    return Outcome::Reset(code.try_into().expect("an error code"));
                }
                _ => received = rest.to_vec(),
            }
        }
        let read = client.read_buf(&mut received);
        let read = tokio::time::timeout(DEADLINE, read).await;
        let read = read.expect("an answer in time").expect("an answer");
        assert_ne!(read, 0, "the server hung up");
    }
}

#[tokio::test]
async fn a_path_for_an_authority_is_answered_with_the_adapter_and_reset_without() {
    for authority in [RAW, ENCODED] {
        let (client, server) = duplex(4_096);
        let bare = serve(server);
        assert_eq!(
            call(client, authority).await,
            Outcome::Reset(PROTOCOL_ERROR),
            "h2 takes {authority} by itself: the adapter is not needed any more"
        );
        bare.await.expect("no panic").expect("a clean end");

        let (client, server) = UnixStream::pair().expect("a connection");
        let served = serve(adapted(server));
        let path = "/pluginregistration.Registration/GetInfo";
        assert_eq!(
            call(client, authority).await,
            Outcome::Answered(format!("http://localhost{path} {authority}")),
        );
        served.await.expect("no panic").expect("a clean end");
    }
}

async fn body_of(mut body: Incoming) -> String {
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let data = frame.expect("a frame").into_data().expect("no trailers");
        text.extend(data);
    }
    String::from_utf8(text).expect("text")
}

#[tokio::test]
async fn a_client_with_huffman_code_is_answered_call_after_call() {
    let (client, server) = UnixStream::pair().expect("a connection");
    serve(adapted(server));
    let (mut calls, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(client))
            .await
            .expect("a handshake");
    tokio::spawn(connection);
    for n in 0..20 {
        let request = Request::get(format!("http://elsewhere.example/{n}"))
            .header("host", format!("host-{}", n % 3))
            .body(String::new())
            .expect("a request");
        let answer = calls.send_request(request).await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let body = body_of(answer.into_body()).await;
        assert_eq!(body, format!("http://localhost/{n} host-{}", n % 3));
    }
}
