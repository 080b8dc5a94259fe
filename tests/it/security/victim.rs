//! A file that an attacker would like the daemon to change.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A file that belongs to root alone, for hostile links to point at.
pub(crate) struct Victim(PathBuf);

impl Victim {
    const WORDS: &str = "to be left alone\n";
    const MODE: u32 = 0o640;

    pub(crate) fn in_directory(directory: &Path) -> Victim {
        let path = directory.join("victim");
        fs::write(&path, Victim::WORDS).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(Victim::MODE)).unwrap();
        Victim(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    #[track_caller]
    pub(crate) fn is_untouched(&self) {
        assert_eq!(fs::read_to_string(&self.0).unwrap(), Victim::WORDS);
        assert_eq!(mode(&self.0), Victim::MODE);
    }
}

/// The mode of the file at the path itself.
pub(crate) fn mode(path: &Path) -> u32 {
    let metadata = fs::symlink_metadata(path);
    let metadata = metadata.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    metadata.permissions().mode() & 0o7777
}
