//! The table of mounts: what a mount hides or shows is told by no event of inotify.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::os::async_fd::async_fd;

/// Of the thread that opens it.
const TABLE: &str = "/proc/thread-self/mountinfo";
/// Each pod mounts and unmounts many things, one after the other.
const PAUSE: Duration = Duration::from_secs(1);

/// Tells when something was mounted or unmounted, once a second at most.
pub(super) struct Mounts {
    table: AsyncFd<File>,
    /// Nothing is told before this.
    next: Instant,
}

impl Mounts {
    pub(super) fn new() -> io::Result<Mounts> {
        Ok(Mounts {
            table: async_fd(File::open(TABLE)?, Interest::PRIORITY)?,
            next: Instant::now(),
        })
    }

    /// Waits for a change. Cancel safe.
    pub(super) async fn changed(&mut self) -> io::Result<()> {
        let mut changed = self.table.ready(Interest::PRIORITY).await?;
        sleep_until(self.next).await;
        self.next = Instant::now() + PAUSE;
        // Before the caller looks: what comes while it does is told the next time.
        changed.clear_ready();
        Ok(())
    }
}
