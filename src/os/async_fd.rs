//! A descriptor that is waited for.

use std::io;
use std::os::fd::AsRawFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits for what has a descriptor of its own, such as a file.
#[expect(
    deprecated,
    reason = "the function that replaces it is unsafe; everything given here keeps its descriptor open"
)]
pub(crate) fn async_fd<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    AsyncFd::with_interest(owner, interest)
}
