//! The fake driver's socket, with bind and listen as separate steps.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind as bind_socket,
    listen as listen_socket, socket,
};
use tokio::net::UnixListener;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::server::Server;

use super::Shared;
use super::answers::Answers;
use super::connection::Connection;
use crate::proto::csi::controller_server::ControllerServer;
use crate::proto::csi::identity_server::IdentityServer;
use crate::proto::csi::node_server::NodeServer;

/// std binds and listens in one step; a test needs the gap between the two.
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
        // The directory may be gone as well: some tests delete it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => panic!("remove {}: {error}", path.display()),
    }
}

pub(super) async fn speak(socket: OwnedFd, shared: Arc<Shared>) {
    let server = Arc::clone(&shared);
    let incoming = UnixListenerStream::new(listener(socket))
        .map(move |stream| stream.map(|stream| Connection::new(stream, &server)));
    let answers = Answers(shared);
    Server::builder()
        .add_service(IdentityServer::new(answers.clone()))
        .add_service(ControllerServer::new(answers.clone()))
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
        held.push(Connection::new(stream, &shared));
    }
}

fn listener(socket: OwnedFd) -> UnixListener {
    UnixListener::from_std(socket.into()).unwrap()
}
