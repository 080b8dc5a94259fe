//! A file that one process at a time holds locked, with the pid of that process in it.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};

use crate::os::peer::is_trusted;

/// Why the lock was not taken.
pub(crate) enum LockError {
    /// Another process holds it.
    Held,
    Failed(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> LockError {
        LockError::Failed(error)
    }
}

/// Makes the file if it is missing, and takes the lock if no other process has it.
pub(crate) fn lock(path: &Path) -> Result<Flock<File>, LockError> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        // A link here would have us truncate the file that it points to.
        .custom_flags(OFlag::O_NOFOLLOW.bits())
        .open(path)?;
    let found = file.metadata()?;
    // Another user may have put a file there: one that it holds locked, or a hard link to a file that only root may write.
    if !found.is_file() || found.nlink() != 1 || !is_trusted(found.uid()) {
        let why = "it is not a file of root or of the daemon's user";
        return Err(LockError::Failed(io::Error::other(why)));
    }
    let mut held =
        Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| match errno {
            Errno::EWOULDBLOCK => LockError::Held,
            errno => LockError::Failed(errno.into()),
        })?;
    // Truncated afterwards: some file systems are slow to empty a file first.
    let pid = format!("{}\n", std::process::id());
    held.write_all(pid.as_bytes())?;
    held.set_len(pid.len() as u64)?;
    Ok(held)
}
