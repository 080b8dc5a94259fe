//! A socket file that nobody listens on.

use std::os::fd::AsRawFd;
use std::path::Path;

use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, bind, socket};

/// Puts one at `path`. It is never listened on: a child that another thread forks at this moment has
/// a copy of the descriptor, and one that listens would live for as long as that.
pub fn dead_socket(path: &Path) {
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).unwrap();
    bind(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
}
