//! The directory of a release.

use std::fs;
use std::path::{Path, PathBuf};

/// The version that the tree has.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory of each release with the major version of the tree.
pub(crate) struct Release {
    pub(crate) directory: PathBuf,
}

impl Release {
    /// The releases, in the order of their names.
    pub(crate) fn all() -> Vec<Release> {
        let major = VERSION.split_once('.').unwrap().0;
        let entries = fs::read_dir(root()).unwrap();
        let mut directories: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        directories.retain(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            path.is_dir() && name.split_once('.').is_some_and(|(of, _)| of == major)
        });
        directories.sort();
        assert!(!directories.is_empty());
        let release = |directory| Release { directory };
        directories.into_iter().map(release).collect()
    }

    /// The releases whose files a test reads: a release that changed none of them has its list alone.
    pub(crate) fn recorded() -> Vec<Release> {
        let mut releases = Release::all();
        releases.retain(|release| release.directory.join("state.json").exists());
        assert!(!releases.is_empty());
        releases
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        let path = self.directory.join(file);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn text(&self, file: &str) -> String {
        String::from_utf8(self.read(file)).unwrap()
    }
}

/// The directory of all releases.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promises")
}
