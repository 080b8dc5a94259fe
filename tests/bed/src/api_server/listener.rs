//! The server's socket: TLS, HTTP/1.1, and the faults.

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use tokio_stream::wrappers::ReceiverStream;

use super::Shared;
use super::answer::{Answer, Body};
use super::fault::{Door, Fault};
use super::request::Request;

/// So much of a body arrives before a fault ends it: hyper sends what it has while it waits for more.
const PAUSE: Duration = Duration::from_millis(50);
const HUGE: usize = 20_000_000;

type Piece = io::Result<Frame<Bytes>>;
type Pieces = StreamBody<ReceiverStream<Piece>>;

pub(super) async fn serve(listener: std::net::TcpListener, shared: Arc<Shared>) {
    let listener = TcpListener::from_std(listener).unwrap();
    let trusted = TlsAcceptor::from(Arc::new(shared.authority.server()));
    let untrusted = TlsAcceptor::from(Arc::new(shared.other_authority.server()));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let door = shared.state().door;
        let acceptor = match door {
            Door::OtherAuthority => &untrusted,
            _ => &trusted,
        };
        spawn_local(meet(stream, door, acceptor.clone(), Arc::clone(&shared)));
    }
}

async fn meet(stream: TcpStream, door: Door, acceptor: TlsAcceptor, shared: Arc<Shared>) {
    match door {
        Door::Closes => return,
        Door::HangsBeforeTls => std::future::pending().await,
        Door::Open | Door::OtherAuthority | Door::NotHttp => {}
    }
    // A client that does not trust the certificate goes away here.
    let Ok(mut stream) = acceptor.accept(stream).await else {
        return;
    };
    if door == Door::NotHttp {
        let said = stream.write_all(b"220 mail.example ESMTP\r\n").await;
        // The client may be gone already.
        drop((said, stream.shutdown().await));
        return;
    }
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates
        .and_then(|chain| chain.first())
        .map(|der| der.to_vec());
    let certificate = Rc::new(certificate);
    let service = service_fn(move |request| {
        let (shared, certificate) = (Arc::clone(&shared), Rc::clone(&certificate));
        async move { Ok::<_, Infallible>(respond(&request, certificate.as_deref(), &shared).await) }
    });
    let connection =
        hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    // An error is the client's end, or a fault that was asked for.
    drop(connection.await);
}

async fn respond(
    request: &hyper::Request<Incoming>,
    certificate: Option<&[u8]>,
    shared: &Shared,
) -> Response<Pieces> {
    let header = request.headers().get("authorization");
    let header = header.and_then(|header| header.to_str().ok());
    let user = shared.identities.lock().unwrap().user(certificate, header);
    let request = Request {
        method: request.method().to_string(),
        path: request.uri().to_string(),
        user,
    };
    let state = shared.state();
    shared.record(request.clone());
    let answer = Answer::to(&request, &state);
    match state.fault(&request.path).cloned() {
        None => whole(answer),
        Some(fault) => faulty(fault, answer, &request).await,
    }
}

/// The answer with its fault.
async fn faulty(fault: Fault, answer: Answer, request: &Request) -> Response<Pieces> {
    match fault {
        Fault::Hang => std::future::pending().await,
        Fault::Status(code) => whole(failure(code)),
        Fault::TooManyRequests(seconds) => {
            let mut response = whole(failure(429));
            let headers = response.headers_mut();
            headers.insert("retry-after", seconds.into());
            response
        }
        Fault::Redirect(server) => {
            let mut response = whole(failure(307));
            let location = format!("{server}{}", request.path).parse().unwrap();
            response.headers_mut().insert("location", location);
            response
        }
        Fault::NoPage => {
            let mut response = sent("default backend - 404".into(), true);
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        }
        Fault::NotJson => sent("<html>Sign in to the network</html>".into(), true),
        Fault::Object(object) => sent(object.to_string(), true),
        Fault::Huge => sent(huge(&answer), true),
        Fault::Cut => sent(text(&answer), false),
        Fault::Drip => dripping(),
    }
}

fn failure(code: u16) -> Answer {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        409 => "Conflict",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    Answer::status(code, reason, "the test asked for this", Value::Null)
}

fn text(answer: &Answer) -> String {
    match &answer.body {
        Body::Object(object) => object.to_string(),
        Body::Text(text) => (*text).to_owned(),
    }
}

/// The object with an annotation that is far too long.
fn huge(answer: &Answer) -> String {
    let Body::Object(object) = &answer.body else {
        return text(answer);
    };
    let mut object = object.clone();
    object["metadata"]["annotations"]["long"] = "LONG".into();
    object.to_string().replace("LONG", &"x".repeat(HUGE))
}

fn whole(answer: Answer) -> Response<Pieces> {
    let mut response = sent(text(&answer), true);
    *response.status_mut() = StatusCode::from_u16(answer.code).unwrap();
    if let Body::Text(_) = answer.body {
        let plain = "text/plain; charset=utf-8".parse().unwrap();
        response.headers_mut().insert("content-type", plain);
    }
    response
}

/// 200 with this body, or with the half of it.
fn sent(text: String, is_whole: bool) -> Response<Pieces> {
    let (pieces, mut response) = empty();
    let length = text.len().into();
    response.headers_mut().insert("content-length", length);
    spawn_local(async move {
        let body = Bytes::from(text);
        let end = if is_whole { body.len() } else { body.len() / 2 };
        // A client may stop reading.
        drop(pieces.send(Ok(Frame::data(body.slice(..end)))).await);
        if !is_whole {
            tokio::time::sleep(PAUSE).await;
            drop(pieces.send(Err(io::ErrorKind::BrokenPipe.into())).await);
        }
    });
    response
}

fn dripping() -> Response<Pieces> {
    let (pieces, response) = empty();
    spawn_local(async move {
        let mut piece = Bytes::from_static(b"{");
        while pieces.send(Ok(Frame::data(piece))).await.is_ok() {
            piece = Bytes::from_static(b" ");
            tokio::time::sleep(PAUSE).await;
        }
    });
    response
}

fn empty() -> (mpsc::Sender<Piece>, Response<Pieces>) {
    let (pieces, body) = mpsc::channel(1);
    let mut response = Response::new(StreamBody::new(ReceiverStream::new(body)));
    let json = "application/json".parse().unwrap();
    response.headers_mut().insert("content-type", json);
    (pieces, response)
}
