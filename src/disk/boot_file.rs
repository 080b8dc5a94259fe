//! A file of ours in the runtime directory that holds until the next boot. It is trusted only if it is complete,
//! ours and of this boot.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::{Uid, geteuid};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::os::boot;

/// The content of such a file.
pub(crate) trait BootFile: Serialize + DeserializeOwned {
    /// Raised when an older program could no longer read the file.
    const FORMAT: u32;

    /// The boot in which the file was written; none if its id could not be read then.
    fn boot_id(&self) -> Option<&str>;
}

/// The part that every format of every file has.
#[derive(serde::Deserialize)]
struct Header {
    format: u32,
}

/// Why a file is not trusted.
#[derive(Debug, Error)]
pub(crate) enum Distrust {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it may be another user's: uid {owner}, mode {mode:04o}")]
    Foreign { owner: u32, mode: u32 },
    #[error("it is torn or not ours: {0}")]
    Torn(#[from] serde_json::Error),
    #[error("it has format {found}, which is newer than {known}")]
    Newer { found: u32, known: u32 },
    #[error("it is from another boot")]
    OtherBoot,
    #[error("it may be from another boot: the boot id is not known, and the file is not in memory")]
    UnknownBoot,
}

/// What is in the file; none if there is no file.
pub(crate) fn read<T: BootFile>(path: &Path) -> Result<Option<T>, Distrust> {
    match read_existing(path) {
        Err(Distrust::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

fn read_existing<T: BootFile>(path: &Path) -> Result<T, Distrust> {
    // Does not follow a link, and does not wait for a pipe without a writer.
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let mut file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let found = file.metadata()?;
    if !is_own(found.uid(), found.mode(), geteuid()) {
        return Err(Distrust::Foreign {
            owner: found.uid(),
            mode: found.mode() & 0o7777,
        });
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let content: T = parse(&text)?;
    check_boot(content.boot_id(), boot::id(), || is_in_memory(&file))?;
    Ok(content)
}

/// The content, whoever wrote it.
fn parse<T: BootFile>(text: &[u8]) -> Result<T, Distrust> {
    let Header { format } = serde_json::from_slice(text)?;
    if format > T::FORMAT {
        return Err(Distrust::Newer {
            found: format,
            known: T::FORMAT,
        });
    }
    Ok(serde_json::from_slice(text)?)
}

/// Replaces the file. A reader, or the program after a crash, sees the old file or the new file.
pub(crate) fn write<T: BootFile>(path: &Path, content: &T) -> io::Result<()> {
    remove_staged(path)?;
    let staged = staged(path);
    let mut file = create(&staged)?;
    file.write_all(&serde_json::to_vec(content)?)?;
    fs::rename(&staged, path)
}

/// Removes what a write that was cut short has left.
pub(crate) fn remove_staged(path: &Path) -> io::Result<()> {
    match fs::remove_file(staged(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Only root and our own user can have written the file. The directory may be writable for others, such
/// as a volume of a pod.
pub(crate) fn is_own(owner: u32, mode: u32, ours: Uid) -> bool {
    (owner == 0 || owner == ours.as_raw()) && mode & 0o022 == 0
}

/// Creates a file of our own. A file that another user has put there, such as a link to a file that
/// only root may write, is not written to.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn staged(path: &Path) -> PathBuf {
    path.with_extension("json.new")
}

/// A file without a boot id, or a file that is read in a boot without an id, is of this boot if it is
/// in memory: no file there outlives a boot.
fn check_boot(
    written: Option<&str>,
    now: Option<&str>,
    is_in_memory: impl FnOnce() -> bool,
) -> Result<(), Distrust> {
    // An earlier version wrote an empty id where it could not read the id.
    match (written.filter(|id| !id.is_empty()), now) {
        (Some(written), Some(now)) if written == now => Ok(()),
        (Some(_), Some(_)) => Err(Distrust::OtherBoot),
        _ if is_in_memory() => Ok(()),
        _ => Err(Distrust::UnknownBoot),
    }
}

pub(crate) fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_is_not_known_is_no_other_unknown_one() {
        let (this, other) = (Some("this"), Some("other"));
        let is_trusted = |written, now, in_memory| check_boot(written, now, || in_memory).is_ok();
        for in_memory in [false, true] {
            assert!(is_trusted(this, this, in_memory));
            assert!(!is_trusted(other, this, in_memory));
        }
        for (written, now) in [(None, None), (Some(""), None), (None, this), (this, None)] {
            assert!(!is_trusted(written, now, false), "{written:?} {now:?}");
            assert!(is_trusted(written, now, true), "{written:?} {now:?}");
        }
    }
}
