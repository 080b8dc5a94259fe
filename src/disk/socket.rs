//! A Unix socket: probing it for a listener, connecting to it, and listening on it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, socket,
};
use nix::sys::stat::{Mode, fchmod};
use tokio::net::UnixListener;

use crate::os::peer::Peer;

/// The longest path of a Unix socket: `sun_path` has 108 bytes, and the last byte is NUL.
pub(crate) const SUN_PATH_MAX: usize = 107;

/// The mode of every socket of ours.
pub(super) const MODE: u32 = 0o600;

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// The outcome of a connect() to a path.
#[derive(Debug)]
pub(crate) enum ListenerProbe {
    /// A process listens. The stream ends when that process stops listening; with a full backlog no
    /// stream is made.
    Alive(Option<UnixStream>),
    /// No process listens.
    Dead,
    /// The connect() failed for another reason, such as a lack of permission.
    Unknown(io::Error),
}

/// Connects without waiting. A full backlog fails at once, and means that a process listens.
pub(crate) fn probe(path: &Path) -> ListenerProbe {
    match connect_now(path) {
        Ok(stream) => ListenerProbe::Alive(Some(stream)),
        Err(Errno::EAGAIN) => ListenerProbe::Alive(None),
        Err(Errno::ECONNREFUSED | Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
            ListenerProbe::Dead
        }
        // A process listens, on a socket of another type.
        Err(Errno::EPROTOTYPE) => ListenerProbe::Alive(None),
        Err(error) => ListenerProbe::Unknown(error.into()),
    }
}

/// A process listens at `path`.
pub(crate) fn is_alive(path: &Path) -> bool {
    matches!(probe(path), ListenerProbe::Alive(_))
}

/// The pid of the process that listens at the other end of a connection.
pub(crate) fn listener(stream: &UnixStream) -> Option<u32> {
    Peer::of(stream).ok()?.pid
}

/// A non-blocking connection. Fails when the backlog is full.
pub(crate) fn open(path: &Path) -> io::Result<UnixStream> {
    Ok(connect_now(path)?)
}

fn connect_now(path: &Path) -> nix::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(fd))
}

/// Binds `path` with mode 0600, and listens. The file gets the mode of the socket itself, so that it never
/// has a wider mode and no path is followed to narrow it (not in unix(7); Linux has always done so).
pub(super) fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    fchmod(&fd, Mode::from_bits_truncate(MODE))?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    nix::sys::socket::listen(&fd, Backlog::new(BACKLOG)?)?;
    UnixListener::from_std(fd.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener as StdListener;

    use super::*;
    use crate::disk::replace::Staged;

    #[test]
    fn tells_the_living_from_the_dead() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        assert!(!is_alive(&path));
        bed::dead_socket(&path);
        assert!(!is_alive(&path));
        fs::remove_file(&path).unwrap();
        let _listener = StdListener::bind(&path).unwrap();
        assert!(is_alive(&path));
    }

    #[test]
    fn a_full_backlog_is_a_sign_of_life_and_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let _listener = StdListener::bind(&path).unwrap();
        let mut held = Vec::new();
        for _ in 0..100_000 {
            match probe(&path) {
                ListenerProbe::Alive(Some(stream)) => held.push(stream),
                ListenerProbe::Alive(None) => return,
                ListenerProbe::Unknown(error)
                    if error.raw_os_error() == Some(Errno::EMFILE as i32) =>
                {
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        panic!("the backlog never filled");
    }

    #[tokio::test]
    async fn a_staged_socket_leaves_nothing_behind_unless_it_is_put() {
        let dir = tempfile::tempdir().unwrap();
        drop(Staged::make(dir.path(), listen).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let place = dir.path().join("reg.sock");
        let (staged, _listener) = Staged::make(dir.path(), listen).unwrap();
        staged.put(&place).unwrap();
        assert!(is_alive(&place));
        assert_eq!(
            fs::metadata(&place).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
