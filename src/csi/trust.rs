//! Whether others than root may put a driver of their own into a driver's place.
//!
//! As sshd looks at a key file: at every directory from / to the socket, and at those that symbolic
//! links lead through.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Uid, geteuid};
use rustix::fs::lgetxattr;
use thiserror::Error;

use crate::disk::directory::{self, MOST_LINKS, is_missing, names};
use crate::disk::identity::Identity;

const GROUP_MAY_WRITE: u32 = 0o020;
const EVERYBODY_MAY_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;
/// Where the kernel shows an access control list.
const ACL: &str = "system.posix_acl_access";

/// Why the way to a socket is not trusted. The kubelet calls whoever listens at its end as root.
#[derive(Debug, PartialEq, Eq, Error)]
pub(crate) enum Exposure {
    #[error("{} belongs to uid {owner}, not to root", .path.display())]
    Owner { path: PathBuf, owner: u32 },
    #[error("others than root may write to {} (mode {mode:04o})", .directory.display())]
    Mode { directory: PathBuf, mode: u32 },
}

impl Exposure {
    /// The command that ends it.
    pub(crate) fn mend(&self) -> String {
        match self {
            Exposure::Owner { path, .. } => format!("chown -h root: {}", path.display()),
            Exposure::Mode { directory, .. } => format!("chmod go-w {}", directory.display()),
        }
    }

    /// Looks at the whole way to a socket, as far as it exists. What is another user's already comes
    /// before what is only open to them.
    pub(crate) fn of(socket: &Path) -> io::Result<Option<Exposure>> {
        let mut walk = Walk {
            at: PathBuf::from("/"),
            rest: names(socket),
            links: 0,
            ours: geteuid(),
            open: None,
        };
        loop {
            match walk.step() {
                Ok(Step::Further) => {}
                Ok(Step::Taken(path, owner)) => return Ok(Some(Exposure::Owner { path, owner })),
                Ok(Step::Arrived) => return Ok(walk.open),
                Err(error) if is_missing(&error) => return Ok(walk.open),
                Err(error) => return Err(error),
            }
        }
    }
}

/// The socket, if others have put it there or may be the ones who listen on it: its directory is
/// another user's, or open, and the socket another user's.
pub(super) fn strangers(socket: &Path) -> Option<Identity> {
    let directory = directory::of(socket);
    let (above, found) = (fs::metadata(directory).ok()?, fs::metadata(socket).ok()?);
    let is_open = Access::of(directory, &above, true) != Access::Closed;
    let is_trusted = |found: &Metadata| is_trusted(found.uid(), geteuid());
    let is_theirs = !is_trusted(&above) || is_open && !is_trusted(&found);
    is_theirs.then(|| Identity::from_parts(&found, None))
}

/// On the way to a file.
struct Walk {
    /// A directory, without any link in its path.
    at: PathBuf,
    /// The names that are left, the next one last.
    rest: Vec<OsString>,
    links: u32,
    ours: Uid,
    /// The first directory that others may write to.
    open: Option<Exposure>,
}

enum Step {
    Further,
    Arrived,
    /// This is another user's.
    Taken(PathBuf, u32),
}

impl Walk {
    fn step(&mut self) -> io::Result<Step> {
        let Some(name) = self.rest.pop() else {
            return Ok(Step::Arrived);
        };
        if name == ".." {
            self.at.pop();
            return Ok(Step::Further);
        }
        let found = fs::symlink_metadata(&self.at)?;
        if !is_trusted(found.uid(), self.ours) {
            return Ok(Step::Taken(self.at.clone(), found.uid()));
        }
        let access = Access::of(&self.at, &found, self.rest.is_empty());
        if access == Access::Open {
            self.open.get_or_insert_with(|| Exposure::Mode {
                directory: self.at.clone(),
                mode: found.mode() & 0o7777,
            });
        }
        let entry = self.at.join(name);
        let found = fs::symlink_metadata(&entry)?;
        // Others may have put it there.
        if access != Access::Closed && !is_trusted(found.uid(), self.ours) {
            return Ok(Step::Taken(entry, found.uid()));
        }
        if !found.is_symlink() {
            self.at = entry;
            return Ok(Step::Further);
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Ok(Step::Arrived);
        }
        let target = fs::read_link(&entry)?;
        if target.is_absolute() {
            self.at = PathBuf::from("/");
        }
        self.rest.extend(names(&target));
        Ok(Step::Further)
    }
}

/// Who may write to a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Closed,
    /// Others may make names in it, and remove their own.
    Sticky,
    Open,
}

impl Access {
    fn of(directory: &Path, found: &Metadata, is_last: bool) -> Access {
        // With an ACL the group's bits are those of whomever it names.
        let names_others = found.mode() & GROUP_MAY_WRITE != 0 && has_acl(directory);
        let group = Some(found.gid()).filter(|_| !names_others);
        judge(group, found.mode(), is_last)
    }
}

/// The last directory has the socket itself in it, which goes and comes with the driver: there a
/// sticky bit keeps names from being removed, not from being made.
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

fn has_acl(directory: &Path) -> bool {
    let nothing: &mut [u8] = &mut [];
    lgetxattr(directory, ACL, nothing).is_ok()
}

/// Without root the daemon works in directories of its own.
fn is_trusted(owner: u32, ours: Uid) -> bool {
    owner == 0 || owner == ours.as_raw()
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
    fn root_and_we_ourselves_are_trusted() {
        let ours = Uid::from_raw(1000);
        assert!(is_trusted(0, ours) && is_trusted(1000, ours));
        assert!(!is_trusted(1001, ours));
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
        assert_eq!(found.mend(), format!("chmod go-w {}", open.display()));
        assert_eq!(Exposure::of(&root.join("a/circle/x")).unwrap(), None);
        assert_eq!(Exposure::of(&root.join("a/none/x")).unwrap(), None);
    }
}
