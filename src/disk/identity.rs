//! The identity of a file on disk.
//!
//! Another file may get the path, and ext4 gives the inode number of a deleted file to the next file at
//! once. Device, inode and change time together tell the two files apart.

use std::fs::{self, FileType, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

/// A file, different from any other file that had its path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    changed_s: i64,
    changed_ns: i64,
    /// Nanoseconds since 1970, where the file system and the kernel report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    born: Option<u64>,
    /// The target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    target: Option<PathBuf>,
}

impl Identity {
    /// The file at `path`; a symbolic link is not followed.
    ///
    /// # Errors
    /// Those of lstat and readlink; `NotFound` when no file is there.
    pub(crate) fn of(path: &Path) -> io::Result<Identity> {
        Identity::and_kind_of(path).map(|(identity, _)| identity)
    }

    /// The same, with the type of that very file.
    pub(crate) fn and_kind_of(path: &Path) -> io::Result<(Identity, FileType)> {
        let metadata = fs::symlink_metadata(path)?;
        let target = metadata.is_symlink().then(|| fs::read_link(path));
        let identity = Identity::from_parts(&metadata, target.transpose()?);
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

    /// The same file, although its mode, owner or times may have changed, which a kubelet does not notice.
    /// Where the birth time is not known, the change time decides.
    pub(crate) fn is_same_object(&self, other: &Identity) -> bool {
        let unchanged = self == other;
        let same_birth = self.born.is_some() && self.born == other.born;
        unchanged || (same_birth && self.is_same_inode(other) && self.target == other.target)
    }

    /// The same file, although it may have another name now, which changes the change time. Where the birth
    /// time is not known, another file that got the same inode counts as the same.
    pub(crate) fn is_renamed(&self, before: &Identity) -> bool {
        self.is_same_inode(before) && self.born == before.born && self.target == before.target
    }

    /// The same file, although its mode, owner or name may have changed. Reliable only while the inode cannot
    /// pass to another file, such as while a socket is bound to it.
    pub(crate) fn is_same_inode(&self, other: &Identity) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }

    /// The file at `path` is this one, by [`Self::is_same_inode`].
    pub(crate) fn is_at(&self, path: &Path) -> bool {
        Identity::of(path).is_ok_and(|found| found.is_same_inode(self))
    }

    /// The file was renamed, or its mode or owner changed, since its birth. Where the birth time is not
    /// known, no file has changed.
    pub(crate) fn has_changed(&self) -> bool {
        let changed = i128::from(self.changed_s) * 1_000_000_000 + i128::from(self.changed_ns);
        self.born.is_some_and(|born| i128::from(born) < changed)
    }

    /// The target, if the file is a symbolic link.
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
