//! The listener of HTTP: a TCP address or a Unix socket.

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

use super::caller::Caller;
use crate::config::Listen;
use crate::disk::directory;
use crate::disk::drop_in::HTTP_TCP;
use crate::disk::identity::Identity;
use crate::disk::obstacle::Obstacle;
use crate::disk::reg_socket::SocketPlace;
use crate::disk::replace::remove;

/// Every user of the node may read the pages: they change nothing and contain no secret, and Prometheus
/// and its exporters do not run as root. A directory with a narrower mode keeps other users out.
const MODE: u32 = 0o666;

/// A listening socket. Removes the file of a Unix socket when it is dropped.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix {
        listener: UnixListener,
        path: PathBuf,
        identity: Identity,
    },
}

/// Either kind of connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Why HTTP has no listener.
#[derive(Debug, Error)]
pub(super) enum ListenError {
    #[error("cannot listen on {address}: {source}{hint}")]
    Address {
        address: SocketAddr,
        source: io::Error,
        hint: String,
    },
    #[error(transparent)]
    Place(#[from] Obstacle),
    #[error("cannot set the mode of {}: {source}", .path.display())]
    Mode { path: PathBuf, source: io::Error },
}

impl Listener {
    pub(super) async fn open(listen: &Listen) -> Result<Listener, ListenError> {
        match listen {
            Listen::Tcp(address) => {
                let bound = bind(*address).await.map(Listener::Tcp);
                bound.map_err(|source| refused(*address, source))
            }
            Listen::Unix(path) => Listener::at(path),
        }
    }

    fn at(path: &Path) -> Result<Listener, ListenError> {
        let place = SocketPlace {
            path: path.to_owned(),
            stage: directory::of(path),
            // A missing directory is a mistake in the configuration.
            borrowed: true,
        };
        let (listener, bound) = place
            .listen(None, false)
            .map_err(|obstacle| match obstacle {
                Obstacle::NoDirectory(directory) => Obstacle::Failed(format!(
                    "cannot listen on {}: {} is missing",
                    path.display(),
                    directory.display()
                )),
                other => other,
            })?;
        Ok(Listener::Unix {
            listener,
            identity: open_to_all(path, &bound).map_err(|source| ListenError::Mode {
                path: path.to_owned(),
                source,
            })?,
            path: path.to_owned(),
        })
    }

    /// Clients find the listener: the file of a Unix socket may have been deleted.
    pub(super) fn is_in_place(&self) -> bool {
        match self {
            Listener::Tcp(_) => true,
            Listener::Unix { path, identity, .. } => identity.is_at(path),
        }
    }

    pub(super) async fn accept(&self) -> io::Result<(Box<dyn Stream>, Caller)> {
        Ok(match self {
            Listener::Tcp(listener) => with_caller(listener.accept().await?.0),
            Listener::Unix { listener, .. } => with_caller(listener.accept().await?.0),
        })
    }
}

fn with_caller(stream: impl Stream + AsFd + 'static) -> (Box<dyn Stream>, Caller) {
    let caller = Caller::of(&stream);
    (Box::new(stream), caller)
}

/// On a node without IPv6, `[::]` means all addresses of IPv4.
async fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let none = Errno::EAFNOSUPPORT as i32;
    match TcpListener::bind(address).await {
        Err(error)
            if error.raw_os_error() == Some(none) && address.ip() == Ipv6Addr::UNSPECIFIED =>
        {
            TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port())).await
        }
        bound => bound,
    }
}

/// Sets the mode of the very socket that was bound. At its path there may be another file by now, such
/// as a link from a user that may write to the directory.
fn open_to_all(path: &Path, bound: &Identity) -> io::Result<Identity> {
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let socket = File::from(open(path, flags, Mode::empty())?);
    let identity = || Ok(Identity::from_parts(&socket.metadata()?, None));
    if !identity()?.is_same_inode(bound) {
        return Err(io::Error::other("another file has taken its place"));
    }
    let itself = format!("/proc/self/fd/{}", socket.as_raw_fd());
    fs::set_permissions(itself, fs::Permissions::from_mode(MODE))?;
    identity()
}

/// RestrictAddressFamilies= makes socket() fail with EAFNOSUPPORT, SocketBindDeny= makes bind() fail
/// with EPERM. A port below 1024 fails with EACCES, which no drop-in of ours fixes.
fn refused(address: SocketAddr, source: io::Error) -> ListenError {
    let sandboxed = [Errno::EAFNOSUPPORT, Errno::EPERM].map(|errno| Some(errno as i32));
    let is_sandboxed = sandboxed.contains(&source.raw_os_error());
    ListenError::Address {
        address,
        source,
        hint: is_sandboxed.then(sandbox_hint).unwrap_or_default(),
    }
}

fn sandbox_hint() -> String {
    format!(
        "; the sandbox of the unit allows no TCP: add the drop-in {HTTP_TCP}, or use http.listen = \"unix:/run/node-storage-driver-registrar/http.sock\""
    )
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix { path, identity, .. } = self
            && let Err(error) = remove(path, identity)
        {
            tracing::warn!(%error, path = %path.display(), "cannot remove the http socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_the_sockets_place_does_not_open_another_file_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("http.sock");
        let secret = dir.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let bound = Identity::of(&path).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert!(open_to_all(&path, &bound).unwrap().is_same_inode(&bound));
        assert_eq!(mode(&path), MODE);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&secret, &path).unwrap();
        assert!(open_to_all(&path, &bound).is_err());
        assert_eq!(mode(&secret), 0o600);
    }

    #[test]
    fn what_the_sandbox_forbids_names_the_drop_in_and_nothing_else_does() {
        let said = |errno: Errno| {
            let address = "127.0.0.1:9809".parse().unwrap();
            refused(address, io::Error::from(errno)).to_string()
        };
        for errno in [Errno::EAFNOSUPPORT, Errno::EPERM] {
            let drop_in = HTTP_TCP.to_string();
            assert!(said(errno).contains(&drop_in), "{}", said(errno));
        }
        for errno in [Errno::EADDRINUSE, Errno::EACCES, Errno::EADDRNOTAVAIL] {
            assert!(!said(errno).contains("http-tcp.conf"), "{}", said(errno));
        }
    }
}
