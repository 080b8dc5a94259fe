//! Unix sockets on disk: whether somebody listens, and listening without ever taking a live one away.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, socket,
};
use nix::sys::stat::{Mode, fchmod};
use tokio::net::UnixListener;

use crate::disk::identity::Identity;
use crate::disk::swap;
use crate::os::peer::Peer;

/// The longest path of a Unix socket: `sun_path` has 108 bytes, and the last byte is NUL.
pub(crate) const SUN_PATH_MAX: usize = 107;

/// Temporary names of ours start so.
pub(crate) const STAGED: &str = ".nr";

/// The mode of every socket of ours.
pub(crate) const MODE: u32 = 0o600;

/// Connections that wait to be taken.
const BACKLOG: i32 = 1024;

/// What a connect() to a path met.
#[derive(Debug)]
pub(crate) enum ListenerProbe {
    /// Somebody listens. The stream's end tells that they no longer do; a full backlog has none.
    Alive(Option<UnixStream>),
    /// Nobody is there.
    Dead,
    /// It cannot be told, such as for want of permission.
    Unknown(io::Error),
}

/// Connects without ever waiting: a full backlog answers at once, and means that somebody listens.
pub(crate) fn probe(path: &Path) -> ListenerProbe {
    match connect_now(path) {
        Ok(stream) => ListenerProbe::Alive(Some(stream)),
        Err(Errno::EAGAIN) => ListenerProbe::Alive(None),
        Err(Errno::ECONNREFUSED | Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => {
            ListenerProbe::Dead
        }
        // Something listens, but it is no stream socket.
        Err(Errno::EPROTOTYPE) => ListenerProbe::Alive(None),
        Err(error) => ListenerProbe::Unknown(error.into()),
    }
}

/// Somebody listens at `path`.
pub(crate) fn is_alive(path: &Path) -> bool {
    matches!(probe(path), ListenerProbe::Alive(_))
}

/// The pid of the process that made the other end of a connection listen.
pub(crate) fn listener(stream: &UnixStream) -> Option<u32> {
    Peer::of(stream).ok()?.pid
}

/// A connection that does not block, made without waiting for room in the backlog.
pub(crate) fn open(path: &Path) -> io::Result<UnixStream> {
    Ok(connect_now(path)?)
}

fn connect_now(path: &Path) -> nix::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(fd))
}

/// A socket that listens under a temporary name, on its way to its place.
pub(crate) struct Staged {
    listener: Option<(UnixListener, Identity)>,
    path: PathBuf,
}

impl Staged {
    /// Binds in `directory`, mode 0600, and listens.
    pub(crate) fn bind(directory: &Path) -> io::Result<Staged> {
        let mut staged = Staged {
            listener: None,
            path: staging(directory),
        };
        let listener = listen(&staged.path)?;
        staged.listener = Some((listener, Identity::of(&staged.path)?));
        Ok(staged)
    }

    /// Moves the socket to its place, over whatever is there.
    pub(crate) fn put(self, place: &Path) -> io::Result<UnixListener> {
        fs::rename(&self.path, place)?;
        Ok(self.placed().0)
    }

    /// Moves the socket to its place, over the file that was `seen` there, or over none. Tells which
    /// file it is, by the name that it had.
    ///
    /// # Errors
    /// Those of [`swap::put`]: `AlreadyExists` when another file is there.
    pub(crate) fn put_over(
        self,
        place: &Path,
        seen: Option<&Identity>,
    ) -> io::Result<(UnixListener, Identity)> {
        swap::put(&self.path, place, seen)?;
        Ok(self.placed())
    }

    fn placed(mut self) -> (UnixListener, Identity) {
        self.listener
            .take()
            .expect("a staged socket listens until it is put in its place")
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some((_, socket)) = &self.listener {
            swap::discard(&self.path, socket);
        }
    }
}

/// The file gets the mode of the socket itself, so that it never has a wider one, and no path is
/// followed to narrow it (unix(7) does not tell; Linux has always done so).
fn listen(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    fchmod(&fd, Mode::from_bits_truncate(MODE))?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    nix::sys::socket::listen(&fd, Backlog::new(BACKLOG)?)?;
    UnixListener::from_std(fd.into())
}

/// A temporary path in `directory`. Its name is as short as the shortest that it can be renamed
/// to (`x-reg.sock`): the path of a socket is bound to be short.
pub(crate) fn staging(directory: &Path) -> PathBuf {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new().hash_one(0) & 0x0fff_ffff;
    directory.join(format!("{STAGED}{random:07x}"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener as StdListener;

    use super::*;

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
        drop(Staged::bind(dir.path()).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        let place = dir.path().join("reg.sock");
        let _listener = Staged::bind(dir.path()).unwrap().put(&place).unwrap();
        assert!(is_alive(&place));
        assert_eq!(
            fs::metadata(&place).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
