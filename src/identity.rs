//! What makes a file on disk the same one as before.
//!
//! A path can be given to another file, and ext4 hands the inode number of a deleted file to the
//! next one at once. Device, inode and change time together tell them apart.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A file, told apart from any other that has had its path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    changed_s: i64,
    changed_ns: i64,
    /// Where it points, for a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<PathBuf>,
}

impl Identity {
    /// Looks at what is at `path` itself, not at what it points to.
    ///
    /// # Errors
    /// Those of lstat and readlink; `NotFound` when nothing is there.
    pub(crate) fn of(path: &Path) -> io::Result<Identity> {
        let metadata = fs::symlink_metadata(path)?;
        let target = if metadata.is_symlink() {
            Some(fs::read_link(path)?)
        } else {
            None
        };
        Ok(Identity::from_parts(&metadata, target))
    }

    pub(crate) fn from_parts(metadata: &Metadata, target: Option<PathBuf>) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed_s: metadata.ctime(),
            changed_ns: metadata.ctime_nsec(),
            target,
        }
    }

    /// Where the file points, if it is a symbolic link.
    pub(crate) fn target(&self) -> Option<&PathBuf> {
        self.target.as_ref()
    }

    /// A made-up file for tests of the pure parts.
    #[cfg(test)]
    pub(crate) fn numbered(inode: u64) -> Identity {
        Identity {
            device: 0,
            inode,
            changed_s: 0,
            changed_ns: 0,
            target: None,
        }
    }

    /// The number of a made-up file.
    #[cfg(test)]
    pub(crate) fn number(&self) -> u64 {
        self.inode
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_made_anew_under_the_same_name_is_another_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("link");
        symlink("/a", &path).unwrap();
        let first = Identity::of(&path).unwrap();
        assert_eq!(Identity::of(&path).unwrap(), first);
        fs::remove_file(&path).unwrap();
        symlink("/a", &path).unwrap();
        assert_ne!(Identity::of(&path).unwrap(), first);
    }
}
