//! A directory: its path, its identity, its permissions, and how to make it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path};

use nix::fcntl::{OFlag, open};
use nix::sys::stat::{Mode, fchmod};

/// How to let us read a directory: root without capabilities has the permissions of other users.
pub(crate) const LET_US_READ: &str =
    "chmod o+rx it, or give the unit CAP_DAC_OVERRIDE (driver-of-another-user.conf)";

/// The kernel follows so many links on the way to a file.
pub(crate) const MOST_LINKS: u32 = 40;

/// The names on the way to a file, the first name last, for a caller that follows the links by hand.
pub(crate) fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter_map(|step| match step {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    names.collect()
}

/// The directory of a file.
pub(crate) fn of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("/"))
}

/// Makes a missing directory and its missing parents with mode 0755, whatever the unit's UMask= is.
pub(crate) fn make(directory: &Path) -> io::Result<()> {
    // The parent of a relative path may be empty.
    if directory.as_os_str().is_empty() || directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        make(parent)?;
    }
    match fs::create_dir(directory) {
        Ok(()) => {}
        Err(_) if directory.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    // The mode of this very directory: a link may have replaced it.
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let made = open(directory, flags, Mode::empty())?;
    Ok(fchmod(made, Mode::from_bits_truncate(0o755))?)
}

/// No file is at a path, or the path leads through a file that is not a directory.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The result of a look, without the error that no file is there.
pub(crate) fn if_found<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked.map(Some),
    }
}

/// The owner and the mode, for a message.
pub(crate) fn owner_and_mode(directory: &Path) -> String {
    match fs::metadata(directory) {
        Ok(found) => format!("uid {}, mode {:04o}", found.uid(), found.mode() & 0o7777),
        Err(_) => "owner unknown".to_owned(),
    }
}

/// The directory on the way to `path` that we may not pass.
pub(crate) fn closed(path: &Path) -> &Path {
    let seen = path
        .ancestors()
        .skip(1)
        .find(|step| fs::metadata(step).is_ok());
    seen.unwrap_or(Path::new("/"))
}

/// Both paths lead to the same directory; none while either leads nowhere.
pub(crate) fn is_same(a: &Path, b: &Path) -> Option<bool> {
    Some(inode(a)? == inode(b)?)
}

/// The topmost directory on the way to `path` that is missing, or `path` itself; none if `path` exists.
pub(crate) fn missing(path: &Path) -> Option<&Path> {
    // A directory that we may not look into is not missing.
    let is_gone = |path: &&Path| fs::metadata(path).is_err_and(|error| is_missing(&error));
    path.ancestors().take_while(is_gone).last()
}

/// Asks for the mount that may be missing, by the nearest directory that exists above the topmost directory
/// that is missing. The root directory is always mounted, so that the missing directory counts there.
pub(crate) fn mount_question(missing: &Path) -> String {
    let nearest = missing.parent().filter(|above| above.parent().is_some());
    format!(" (is {} mounted?)", nearest.unwrap_or(missing).display())
}

/// That `path` is missing, by its topmost missing directory, and the question for the mount; none if it exists.
pub(crate) fn missing_words(path: &Path) -> Option<String> {
    let missing = missing(path)?;
    let (shown, question) = (missing.display(), mount_question(missing));
    Some(format!("{shown} is missing{question}"))
}

/// Device and inode of the file that the path leads to, which are the same under each of its paths.
pub(crate) fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn makes_what_is_missing_and_leaves_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o700)).unwrap();
        let inner = dir.path().join("a/b");
        make(&inner).unwrap();
        make(&inner).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&inner), 0o755);
        assert_eq!(mode(dir.path()), 0o700);
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(make(&dir.path().join("file/x")).is_err());
    }

    #[test]
    fn the_nearest_directory_that_exists_may_be_a_mount_point() {
        let question = |missing: &str| mount_question(Path::new(missing));
        assert_eq!(question("/vdata/storage"), " (is /vdata mounted?)");
        // The root directory is mounted.
        assert_eq!(question("/vdata"), " (is /vdata mounted?)");
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/csi.sock");
        assert_eq!(missing(&deep), Some(&*dir.path().join("a")));
        assert_eq!(missing(dir.path()), None);
    }

    #[test]
    fn a_relative_path_has_a_parent_without_a_name() {
        make(Path::new("")).unwrap();
        make(Path::new("src")).unwrap();
    }

    #[test]
    fn a_path_that_cannot_be_looked_at_is_not_missing() {
        let dir = tempfile::tempdir().unwrap();
        let (there, round) = (dir.path().join("a"), dir.path().join("round"));
        std::os::unix::fs::symlink(&round, &round).unwrap();
        assert_eq!(missing_words(&round.join("plugins")), None);
        let words = format!(
            "{} is missing (is {} mounted?)",
            there.display(),
            dir.path().display()
        );
        assert_eq!(missing_words(&there.join("plugins")), Some(words));
        assert_eq!(missing_words(dir.path()), None);
    }
}
