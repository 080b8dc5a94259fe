//! A hyper server answers requests through the adapter that it resets without the adapter, and ends
//! hostile connections itself.

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
    CONTINUATION, DATA, ENCODED, END_HEADERS, Encoder, GOAWAY, HEADERS, PADDED, PING, RAW,
    RST_STREAM, conversation, field, frame, get_info, request,
};
use super::hpack::put_string;
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

/// Waits for the body of the answer on this stream, or for its reset.
async fn outcome(client: &mut (impl AsyncRead + Unpin), on: u32) -> Outcome {
    let mut received = Vec::new();
    loop {
        while let Some(((kind, _, stream, payload), rest)) = split_frame(&received) {
            match kind {
                DATA if stream == on => {
                    return Outcome::Answered(String::from_utf8_lossy(payload).into());
                }
                RST_STREAM if stream == on => {
                    return Outcome::Reset(payload.try_into().expect("an error code"));
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

/// Sends one request by hand.
async fn call(mut client: impl AsyncRead + AsyncWrite + Unpin, authority: &str) -> Outcome {
    let mut fields = get_info(authority);
    fields.push(field("host", authority));
    let bytes = conversation(&[request(1, fields)]);
    client.write_all(&bytes).await.expect("sent");
    outcome(&mut client, 1).await
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
            Outcome::Answered(format!("http://x{path} {authority}")),
        );
        served.await.expect("no panic").expect("a clean end");
    }
}

#[tokio::test]
async fn a_request_in_continuation_frames_is_refused_and_the_next_is_answered() {
    let (mut client, server) = UnixStream::pair().expect("a connection");
    serve(adapted(server));
    let mut encoder = Encoder::new();
    let mut continued = request(1, get_info(RAW));
    continued.cuts = vec![500];
    let bytes = [conversation(&[]), encoder.write(&continued)].concat();
    client.write_all(&bytes).await.expect("sent");
    let refused = outcome(&mut client, 1).await;
    assert_eq!(refused, Outcome::Reset(PROTOCOL_ERROR));

    // Its other fields are entries of the table now; another authority is a literal.
    let bytes = encoder.write(&request(3, get_info(ENCODED)));
    client.write_all(&bytes).await.expect("sent");
    let path = "/pluginregistration.Registration/GetInfo";
    let answered = Outcome::Answered(format!("http://x{path} none"));
    assert_eq!(outcome(&mut client, 3).await, answered);
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
        assert_eq!(body, format!("http://x/{n} host-{}", n % 3));
    }
}

/// What the server does with a connection that no honest client makes.
async fn ends(bytes: &[u8]) -> hyper::Result<()> {
    let (mut client, server) = UnixStream::pair().expect("a connection");
    let served = serve(adapted(server));
    let sent = [&conversation(&[]), bytes].concat();
    // The server may hang up before it has read everything.
    let write = tokio::time::timeout(DEADLINE, client.write_all(&sent));
    drop(write.await.expect("it reads"));
    let mut received = Vec::new();
    let mut kinds = Vec::new();
    let read = client.read_to_end(&mut received);
    drop(tokio::time::timeout(DEADLINE, read).await.expect("an end"));
    let mut rest = received.as_slice();
    while let Some(((kind, ..), after)) = split_frame(rest) {
        kinds.push(kind);
        rest = after;
    }
    assert!(kinds.contains(&GOAWAY), "no goodbye: {kinds:?}");
    served.await.expect("no panic")
}

#[tokio::test]
async fn hostile_frames_end_their_connection() {
    let block = |fields: &[u8]| frame(HEADERS, END_HEADERS, 1, fields);
    let opened = frame(HEADERS, 0, 1, &[0x82]);
    let mut flood = opened.clone();
    for _ in 0..1_000 {
        flood.extend(frame(CONTINUATION, 0, 1, &[]));
    }
    // 16 KiB that stand for 49 MB of headers.
    let mut bomb = b"\x40\x01x".to_vec();
    put_string(&mut bomb, false, &[b'v'; 4_000]);
    bomb.resize(16_384, 0xbe);
    let hostile = [
        frame(DATA, 0, 1, &vec![0; 16_385]),
        frame(HEADERS, END_HEADERS, 1, &vec![0x82; 16_385]),
        frame(HEADERS, END_HEADERS, 0, &[0x82]),
        frame(CONTINUATION, END_HEADERS, 1, &[0x82]),
        [opened.clone(), frame(PING, 0, 0, &[0; 8])].concat(),
        [opened.clone(), frame(CONTINUATION, END_HEADERS, 3, &[0x82])].concat(),
        frame(HEADERS, END_HEADERS | PADDED, 1, &[]),
        frame(HEADERS, END_HEADERS | PADDED, 1, &[4, 0x82, 0, 0]),
        flood,
        block(&bomb),
        block(b"\x80"),                         // index 0
        block(b"\xbe"),                         // an empty dynamic table
        block(b"\x41\x05four"),                 // a value cut short
        block(b"\x00\xff\xff\xff\xff\xff\x7f"), // a length without end
        block(b"\x04\x84\xff\xff\xff\xff"),     // EOS within a string
        block(b"\x3f\xe2\x1f\x82"),             // a table of 4,097
    ];
    for bytes in hostile {
        let start = &bytes[..bytes.len().min(40)];
        assert!(ends(&bytes).await.is_err(), "{start:x?}");
    }
}

#[tokio::test]
async fn another_protocol_ends_its_connection() {
    let (mut client, server) = UnixStream::pair().expect("a connection");
    let served = serve(adapted(server));
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.write_all(request).await.expect("sent");
    let ended = tokio::time::timeout(DEADLINE, served).await;
    ended
        .expect("an end")
        .expect("no panic")
        .expect_err("no HTTP/2");
}
