//! Trust in the path to a driver's socket: whether users other than root can put a driver of their
//! own there.
//!
//! The check follows sshd's check of a key file. It covers every directory from / to the socket,
//! and the directories that symbolic links on the path lead through.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::lgetxattr;
use thiserror::Error;

use crate::config::Key;
use crate::disk::directory::{self, MOST_LINKS, is_missing, names};
use crate::disk::drop_in::DRIVER_OF_ANOTHER_USER;
use crate::disk::identity::Identity;
use crate::os::peer::is_trusted;
use crate::os::text::quoted_path;

const GROUP_MAY_WRITE: u32 = 0o020;
const EVERYBODY_MAY_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// The extended attribute in which the kernel shows an access control list.
const ACL: &str = "system.posix_acl_access";

/// The place on the path to a socket that users other than root control. The kubelet calls the
/// process that listens on the socket as root.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Exposure {
    #[error("{} belongs to uid {owner}, not to root", .path.display())]
    Owner { path: PathBuf, owner: u32 },
    #[error("users other than root can write to {} (mode {mode:04o})", .directory.display())]
    Mode { directory: PathBuf, mode: u32 },
}

/// Why a table for a driver of another user pins its name.
pub(crate) const PIN: &str =
    "with the driver's name for NAME, so that it cannot take the name of another driver";

/// A table that pins the name of a driver. An operator has to put the name in.
pub(crate) fn pinned_table(id: &str) -> String {
    format!("[{}] with name = \"NAME\"", Key::of(&["drivers", id]))
}

/// Which users can write to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Closed,
    /// Other users can create names in it, and remove only their own.
    Sticky,
    Open,
}

impl Exposure {
    /// The fix, for a driver that discovery found under this id. A driver that runs as the owner could not
    /// create its socket in a directory of root at its next start.
    pub(crate) fn fix(&self, id: &str) -> String {
        match self {
            Exposure::Owner { owner, .. } => format!(
                "only if you trust uid {owner}, and the driver runs as this user: declare it in {}, {PIN}, and install the drop-in {DRIVER_OF_ANOTHER_USER}; otherwise: {}",
                pinned_table(id),
                self.command()
            ),
            Exposure::Mode { .. } => self.command(),
        }
    }

    /// The users that control the place.
    pub(crate) fn users(&self) -> String {
        match self {
            Exposure::Owner { owner, .. } => format!("uid {owner}"),
            Exposure::Mode { directory, .. } => {
                format!("the users that can write to {}", directory.display())
            }
        }
    }

    /// The same for a driver that the configuration declares.
    pub(crate) fn fix_for_declared(&self) -> String {
        match self {
            Exposure::Owner { owner, .. } => format!(
                "if you trust uid {owner}, and the driver runs as this user, keep the owner and install the drop-in {DRIVER_OF_ANOTHER_USER}; otherwise: {}",
                self.command()
            ),
            Exposure::Mode { .. } => self.command(),
        }
    }

    /// The command that leaves the path to root.
    fn command(&self) -> String {
        match self {
            Exposure::Owner { path, .. } => format!("chown -h root: {}", quoted_path(path)),
            Exposure::Mode { directory, .. } => format!("chmod go-w {}", quoted_path(directory)),
        }
    }

    /// Checks the path to a socket, as far as the path exists. A file that belongs to another user
    /// is reported before a directory that other users can only write to.
    pub(crate) fn of(socket: &Path) -> io::Result<Option<Exposure>> {
        let mut open = None;
        match walk(socket, &mut open) {
            Ok(owner) => Ok(owner.or(open)),
            Err(error) if is_missing(&error) => Ok(open),
            Err(error) => Err(error),
        }
    }
}

/// Returns the first file on the path that belongs to another user, and sets `open` to the first
/// directory that other users can write to.
fn walk(socket: &Path, open: &mut Option<Exposure>) -> io::Result<Option<Exposure>> {
    let foreign = |path: &Path, found: &Metadata| {
        let owner = found.uid();
        let path = path.to_owned();
        (!is_trusted(owner)).then_some(Exposure::Owner { path, owner })
    };
    // A directory, without any link in its path, and the names that follow it, the next name last.
    let (mut directory, mut rest) = (PathBuf::from("/"), names(socket));
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            directory.pop();
            continue;
        }
        let found = fs::symlink_metadata(&directory)?;
        if let Some(exposure) = foreign(&directory, &found) {
            return Ok(Some(exposure));
        }
        let access = Access::of(&directory, &found, rest.is_empty());
        if access == Access::Open {
            open.get_or_insert_with(|| Exposure::Mode {
                directory: directory.clone(),
                mode: found.mode() & 0o7777,
            });
        }
        let entry = directory.join(name);
        let found = fs::symlink_metadata(&entry)?;
        // Another user may have created the entry.
        if access != Access::Closed
            && let Some(exposure) = foreign(&entry, &found)
        {
            return Ok(Some(exposure));
        }
        if !found.is_symlink() {
            directory = entry;
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            break;
        }
        let target = fs::read_link(&entry)?;
        if target.is_absolute() {
            directory = PathBuf::from("/");
        }
        rest.extend(names(&target));
    }
    Ok(None)
}

/// The socket, if another user may have created it or may listen on it: its directory belongs to
/// another user, or its directory is open and the socket belongs to another user.
pub(super) fn foreign_socket(socket: &Path) -> Option<Identity> {
    let directory = directory::of(socket);
    let (above, found) = (fs::metadata(directory).ok()?, fs::metadata(socket).ok()?);
    let is_open = Access::of(directory, &above, true) != Access::Closed;
    let is_foreign = !is_trusted(above.uid()) || is_open && !is_trusted(found.uid());
    is_foreign.then(|| Identity::from_parts(&found, None))
}

impl Access {
    fn of(directory: &Path, found: &Metadata, is_last: bool) -> Access {
        // With an ACL, the group's bits apply to the users and groups that the ACL names.
        let has_acl = || lgetxattr(directory, ACL, &mut [] as &mut [u8]).is_ok();
        let names_others = found.mode() & GROUP_MAY_WRITE != 0 && has_acl();
        let group = Some(found.gid()).filter(|_| !names_others);
        judge(group, found.mode(), is_last)
    }
}

/// The last directory contains the socket itself, which comes and goes with the driver. There a
/// sticky bit does not help: it keeps other users from removing names, not from creating them.
fn judge(group: Option<u32>, mode: u32, is_last: bool) -> Access {
    let everybody = mode & EVERYBODY_MAY_WRITE != 0;
    let group = mode & GROUP_MAY_WRITE != 0 && (is_last || group != Some(0));
    if !everybody && !group {
        Access::Closed
    } else if mode & STICKY != 0 && !is_last {
        Access::Sticky
    } else {
        Access::Open
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn only_root_and_we_ourselves_may_write_to_the_last_directory() {
        for (mode, access) in [
            (0o755, Access::Closed),
            (0o750, Access::Closed),
            (0o700, Access::Closed),
            (0o775, Access::Open),
            (0o757, Access::Open),
            (0o720, Access::Open),
            (0o1777, Access::Open),
        ] {
            assert_eq!(judge(Some(0), mode, true), access, "{mode:o}");
        }
    }

    #[test]
    fn above_it_roots_group_may_write_and_a_sticky_bit_helps() {
        for (group, mode, access) in [
            (0, 0o755, Access::Closed),
            (0, 0o775, Access::Closed),
            (12345, 0o775, Access::Open),
            (0, 0o777, Access::Open),
            (0, 0o1777, Access::Sticky),
            (12345, 0o1775, Access::Sticky),
        ] {
            assert_eq!(judge(Some(group), mode, false), access, "{group} {mode:o}");
        }
    }

    #[test]
    fn the_group_of_a_directory_with_an_acl_is_not_roots() {
        let dir = tempfile::tempdir().unwrap();
        let access = || Access::of(dir.path(), &fs::metadata(dir.path()).unwrap(), false);
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(access(), Access::Closed);
        // The owner, uid 12345, the group, the mask and the others; see acl(5) and
        // linux/posix_acl_xattr.h.
        let entries = [(1_u16, 7_u16, u32::MAX), (2, 7, 12345), (4, 5, u32::MAX)];
        let more = [(0x10, 7, u32::MAX), (0x20, 5, u32::MAX)];
        let mut acl = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, id) in entries.into_iter().chain(more) {
            acl.extend(tag.to_le_bytes());
            acl.extend(rights.to_le_bytes());
            acl.extend(id.to_le_bytes());
        }
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(dir.path(), ACL, &acl, flags).is_err() {
            return bed::skipped("a file system with ACLs");
        }
        assert_eq!(access(), Access::Open);
    }

    #[test]
    fn links_are_followed_and_a_circle_of_them_ends() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let open = root.join("open");
        fs::create_dir_all(open.join("driver")).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        for path in [&root.join("a"), &open.join("driver")] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        symlink("../open/./driver", root.join("a/b")).unwrap();
        symlink("circle", root.join("a/circle")).unwrap();
        let socket = root.join("a/b/csi.sock");
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(Exposure::of(&socket).unwrap(), None);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let found = Exposure::of(&socket).unwrap().unwrap();
        assert_eq!(found.fix("a"), format!("chmod go-w {}", open.display()));
        assert_eq!(found.fix_for_declared(), found.fix("a"));
        let blank = Exposure::Mode {
            directory: "/a b".into(),
            mode: 0o777,
        };
        assert_eq!(blank.fix("a"), "chmod go-w '/a b'");
        assert_eq!(Exposure::of(&root.join("a/circle/x")).unwrap(), None);
        assert_eq!(Exposure::of(&root.join("a/none/x")).unwrap(), None);
    }
}
