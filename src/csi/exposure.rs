//! Whether others than root may put a driver of their own into a plugin's directory.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, geteuid};
use thiserror::Error;

/// Write permission for the group or for everybody.
const OTHERS_MAY_WRITE: u32 = 0o022;

/// Why a directory is not trusted. The kubelet calls whoever listens in it as root.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Exposure {
    #[error(
        "refused: {} belongs to uid {owner}, not to root; a driver that is found by itself must be out of others' reach",
        .directory.display()
    )]
    Owner { directory: PathBuf, owner: u32 },
    #[error(
        "refused: others than root may write to {} (mode {mode:04o}); chmod go-w it",
        .directory.display()
    )]
    Mode { directory: PathBuf, mode: u32 },
}

impl Exposure {
    pub(crate) fn directory(&self) -> &Path {
        match self {
            Exposure::Owner { directory, .. } | Exposure::Mode { directory, .. } => directory,
        }
    }

    /// Looks at the directory itself. Who may write to one above it can only move it away: what
    /// they put in its place is theirs, and is refused for that.
    pub(crate) fn of(directory: &Path) -> io::Result<Option<Exposure>> {
        let found = fs::metadata(directory)?;
        let (owner, mode) = (found.uid(), found.mode() & 0o7777);
        Ok(judge(owner, mode, geteuid()).map(|fault| match fault {
            Fault::Owner => Exposure::Owner {
                directory: directory.to_owned(),
                owner,
            },
            Fault::Mode => Exposure::Mode {
                directory: directory.to_owned(),
                mode,
            },
        }))
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Fault {
    Owner,
    Mode,
}

/// Without root the daemon works in directories of its own.
fn judge(owner: u32, mode: u32, ours: Uid) -> Option<Fault> {
    if owner != 0 && owner != ours.as_raw() {
        Some(Fault::Owner)
    } else if mode & OTHERS_MAY_WRITE != 0 {
        Some(Fault::Mode)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_we_ourselves_may_own_a_directory_and_write_to_it() {
        let ours = Uid::from_raw(1000);
        for (owner, mode, fault) in [
            (0, 0o755, None),
            (0, 0o750, None),
            (1000, 0o700, None),
            (1001, 0o700, Some(Fault::Owner)),
            (0, 0o775, Some(Fault::Mode)),
            (0, 0o757, Some(Fault::Mode)),
            (1000, 0o720, Some(Fault::Mode)),
            // A sticky bit keeps names from being removed, not from being made.
            (0, 0o1777, Some(Fault::Mode)),
        ] {
            assert_eq!(judge(owner, mode, ours), fault, "{owner} {mode:o}");
        }
    }
}
