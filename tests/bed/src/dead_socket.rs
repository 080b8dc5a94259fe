//! A socket file that nobody listens on.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};

/// Puts one at `path`.
#[track_caller]
pub fn dead_socket(path: &Path) {
    try_dead_socket(path).unwrap();
}

/// The same where it may fail. It is never listened on: a child that another thread forks at this
/// moment has a copy of the descriptor, and one that listens would live for as long as that.
pub fn try_dead_socket(path: &Path) -> io::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(())
}
