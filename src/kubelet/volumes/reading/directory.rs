//! A directory of the kubelet, open.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2, readlinkat};
use nix::sys::stat::Mode;

use crate::disk::directory::if_found;
use crate::disk::reach::Reach;
use crate::kubelet::volumes::vol_data::VolDataError;
use crate::os::text::printable;

/// An open directory. Its errors are words, with the path.
pub(super) struct Directory {
    fd: OwnedFd,
    path: PathBuf,
    /// Mount points below the directory that was entered, and that may hang.
    mounts: Rc<HashSet<PathBuf>>,
}

impl Directory {
    /// Opens a directory of the kubelet's own, to which links may lead; none if it does not exist. A link
    /// that leads nowhere is an error: the disk behind it may not be mounted yet.
    pub(super) fn enter(path: &Path, reach: &Reach) -> Result<Option<Directory>, String> {
        let failed = |error: io::Error| unreadable(path, &error);
        // Mount points have no links in their paths.
        let Some(real) = if_found(path.canonicalize()).map_err(failed)? else {
            let mut above = path.ancestors();
            return match above.find(|above| above.symlink_metadata().is_ok()) {
                Some(link) if link.is_symlink() => Err(unreadable(link, &"the link leads nowhere")),
                Some(_) | None => Ok(None),
            };
        };
        let flags = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let opened = open(&real, flags, Mode::empty()).map_err(io::Error::from);
        let fd = if_found(opened).map_err(failed)?;
        Ok(fd.map(|fd| Directory {
            fd,
            mounts: Rc::new(reach.mounts_below(&real)),
            path: real,
        }))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory in this one; none if it does not exist, or is a file. The kubelet may remove a
    /// pod at any time. It makes no links here, and a link could lead anywhere.
    pub(super) fn open(&self, name: &OsStr) -> Result<Option<Directory>, String> {
        let path = self.path.join(name);
        if self.mounts.contains(&path) {
            return Err(hidden(&path));
        }
        match self.open_here(name, OFlag::O_DIRECTORY) {
            Ok(fd) => Ok(Some(Directory {
                fd,
                path,
                mounts: Rc::clone(&self.mounts),
            })),
            Err(Errno::ENOENT) => Ok(None),
            // readlink(2) does not ask a file system that is mounted on the entry.
            Err(Errno::ENOTDIR) => match readlinkat(&self.fd, name) {
                Ok(_) => Err(unreadable(&path, &"it is a link")),
                Err(_) => Ok(None),
            },
            Err(Errno::EXDEV) => Err(hidden(&path)),
            Err(error) => Err(unreadable(&path, &io::Error::from(error))),
        }
    }

    /// Opens a file in this directory for reading; none if it does not exist.
    pub(super) fn open_file(&self, name: &str) -> Result<Option<OwnedFd>, VolDataError> {
        // Does not wait for a pipe without a writer.
        let flags = OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let opened = self.open_here(OsStr::new(name), flags);
        let opened = opened.map_err(|error| match error {
            Errno::ELOOP => VolDataError::NotAFile,
            error => io::Error::from(error).into(),
        });
        match opened {
            Err(VolDataError::Read(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Follows no link and enters no mount. A kernel before 5.6 and some sandboxes have no openat2(2): then
    /// only the mounts that may hang are known.
    fn open_here(&self, name: &OsStr, flags: OFlag) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let resolve = ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        match openat2(&self.fd, name, OpenHow::new().flags(flags).resolve(resolve)) {
            Err(Errno::ENOSYS | Errno::EPERM) => openat(&self.fd, name, flags, Mode::empty()),
            opened => opened,
        }
    }

    /// The names in the directory without those of regular files, sorted; none if it has more than `most`
    /// of any kind. May be called once.
    pub(super) fn names(&self, most: usize) -> Result<Option<Vec<OsString>>, String> {
        let mut names = Vec::new();
        let mut seen = 0;
        let failed = |error: io::Error| unreadable(&self.path, &error);
        let fd = self.fd.try_clone().map_err(failed)?;
        let mut entries = Dir::from_fd(fd).map_err(|errno| failed(errno.into()))?;
        for entry in entries.iter() {
            let entry = match entry {
                Ok(entry) => entry,
                // The directory was removed.
                Err(Errno::ENOENT) => break,
                Err(errno) => return Err(failed(errno.into())),
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            seen += 1;
            if seen > most {
                return Ok(None);
            }
            if entry.file_type() != Some(Type::File) {
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        names.sort();
        Ok(Some(names))
    }
}

/// Why a path cannot be read.
pub(super) fn unreadable(path: &Path, error: &dyn fmt::Display) -> String {
    let path = path.to_string_lossy();
    printable(&format!("cannot read {path}: {error}"))
}

fn hidden(path: &Path) -> String {
    unreadable(
        path,
        &"a file system is mounted there, over the kubelet's files",
    )
}
