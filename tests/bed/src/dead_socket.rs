//! A socket file on which no process listens.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};

/// Puts one at `path`.
#[track_caller]
pub fn dead_socket(path: &Path) {
    try_dead_socket(path).unwrap();
}

/// The same where it may fail. The test never listens on it: a child that another thread forks at this
/// moment has a copy of the descriptor, and would keep a listening socket alive.
pub fn try_dead_socket(path: &Path) -> io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(())
}
