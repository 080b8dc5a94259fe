//! What makes a file on disk the same one as before.
//!
//! A path can be given to another file, and ext4 hands the inode number of a deleted file to the
//! next one at once. Device, inode and change time together tell them apart.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// A file, told apart from any other that has had its path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    changed_s: i64,
    changed_ns: i64,
    /// Nanoseconds since 1970, where the file system and the kernel tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
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
        Identity::and_kind_of(path).map(|(identity, _)| identity)
    }

    /// The same, with the kind of that very file.
    pub(crate) fn and_kind_of(path: &Path) -> io::Result<(Identity, FileType)> {
        let metadata = fs::symlink_metadata(path)?;
        let target = if metadata.is_symlink() {
            Some(fs::read_link(path)?)
        } else {
            None
        };
        let identity = Identity::from_parts(&metadata, target);
        Ok((identity, metadata.file_type()))
    }

    pub(crate) fn from_parts(metadata: &Metadata, target: Option<PathBuf>) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            changed_s: metadata.ctime(),
            changed_ns: metadata.ctime_nsec(),
            born: born(metadata),
            target,
        }
    }

    /// The same file, though it may have been touched or given to another owner, which a kubelet
    /// does not notice. Where the time of birth is not known, the change time stands in for it.
    pub(crate) fn is_same_object(&self, other: &Identity) -> bool {
        let unchanged = self == other;
        let same_birth = self.born.is_some() && self.born == other.born;
        unchanged || (same_birth && self.is_same_inode(other) && self.target == other.target)
    }

    /// The same file, though it may have another name, which changes the change time. Where the time of
    /// birth is not known, a file that got the inode of another in between passes for it.
    pub(crate) fn is_renamed(&self, before: &Identity) -> bool {
        self.is_same_inode(before) && self.born == before.born && self.target == before.target
    }

    /// The same file, though its mode, owner or name may have changed. To be relied on only while
    /// something keeps the inode from being handed to another file, as a bound socket does.
    pub(crate) fn is_same_inode(&self, other: &Identity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// The file at `path` is this one, by [`Self::is_same_inode`].
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        Identity::of(path).is_ok_and(|found| found.is_same_inode(self))
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
            born: None,
            target: None,
        }
    }

    /// The number of a made-up file.
    #[cfg(test)]
    pub(crate) fn number(&self) -> u64 {
        self.inode
    }
}

fn born(metadata: &Metadata) -> Option<u64> {
    let since_1970 = metadata.created().ok()?.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since_1970.as_nanos()).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

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
        let second = Identity::of(&path).unwrap();
        assert_ne!(second, first);
        assert!(!second.is_same_object(&first));
    }

    #[test]
    fn a_file_with_another_name_is_the_same_and_another_file_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let [path, other] = ["a", "b"].map(|name| dir.path().join(name));
        symlink("/a", &path).unwrap();
        let before = Identity::of(&path).unwrap();
        fs::rename(&path, &other).unwrap();
        assert!(Identity::of(&other).unwrap().is_renamed(&before));
        symlink("/a", &path).unwrap();
        assert!(!Identity::of(&path).unwrap().is_renamed(&before));
    }

    #[test]
    fn a_file_that_was_touched_is_the_same_object() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "").unwrap();
        let before = Identity::of(&path).unwrap();
        assert!(
            before.born.is_some(),
            "this file system does not tell when a file was made"
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let after = Identity::of(&path).unwrap();
        assert_ne!(before, after);
        assert!(before.is_same_object(&after));
    }
}
