//! Waits until a file descriptor is ready.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers `owner` with tokio, which then reports when its descriptor is ready.
#[expect(
    deprecated,
    reason = "the function that replaces it is unsafe; every owner passed here keeps its descriptor open"
)]
pub(crate) fn async_fd<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, interest)
}
