//! The table of mounts: inotify does not report that a mount hides or shows a directory.

use std::fs::File;
use std::io;
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep_until};

use crate::disk::mount_table::TABLE;
use crate::os::async_fd::async_fd;

/// Each pod mounts and unmounts many file systems in a row.
const PAUSE: Duration = Duration::from_secs(1);

/// Reports mounts and unmounts, at most once a second.
pub(super) struct Mounts {
    table: AsyncFd<File>,
    /// No change is reported before this.
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
        // Before the caller looks: a change during its look is reported the next time.
        changed.clear_ready();
        Ok(())
    }
}
