//! The fake driver's socket: bind and listen apart from each other, and a count of connections.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind as bind_socket,
    listen as listen_socket, socket,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::{Connected, Server};

use super::Shared;
use super::answers::Answers;
use crate::proto::csi::identity_server::IdentityServer;
use crate::proto::csi::node_server::NodeServer;

/// std binds and listens in one go; here the gap between the two is the point.
pub(super) fn bind(path: &Path) -> OwnedFd {
    let fd = socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
        None,
    )
    .unwrap();
    let address = UnixAddr::new(path).unwrap();
    if let Err(error) = bind_socket(fd.as_raw_fd(), &address) {
        panic!("bind {}: {error}", path.display());
    }
    fd
}

pub(super) fn listen(socket: &OwnedFd) {
    listen_socket(socket, Backlog::MAXCONN).unwrap();
}

pub(super) fn remove(path: &Path) {
    match std::fs::remove_file(path) {
        Ok(()) => {}
        // The directory may be gone with it: some tests delete that much.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => panic!("remove {}: {error}", path.display()),
    }
}

pub(super) async fn speak(socket: OwnedFd, shared: Arc<Shared>) {
    let connections = Arc::clone(&shared.connections);
    let incoming = UnixListenerStream::new(listener(socket))
        .map(move |stream| stream.map(|stream| Counted::new(stream, &connections)));
    let answers = Answers(shared);
    Server::builder()
        .add_service(IdentityServer::new(answers.clone()))
        .add_service(NodeServer::new(answers))
        .serve_with_incoming(incoming)
        .await
        .unwrap();
}

pub(super) async fn stay_mute(socket: OwnedFd, shared: Arc<Shared>) {
    let listener = listener(socket);
    let mut held = Vec::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        held.push(Counted::new(stream, &shared.connections));
    }
}

fn listener(socket: OwnedFd) -> UnixListener {
    UnixListener::from_std(socket.into()).unwrap()
}

/// A connection that is counted while it is open.
struct Counted {
    stream: UnixStream,
    open: Arc<AtomicUsize>,
}

impl Counted {
    fn new(stream: UnixStream, open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::SeqCst);
        Self {
            stream,
            open: Arc::clone(open),
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Connected for Counted {
    type ConnectInfo = ();
    fn connect_info(&self) {}
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
