//! Foreign files among the registrar's, which it must not touch.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Files of every kind in a few directories, with their original metadata.
#[derive(Default)]
pub struct Sentinels {
    planted: BTreeMap<PathBuf, Likeness>,
    listeners: Vec<UnixListener>,
}

/// Everything that identifies an unchanged file.
#[derive(Debug, PartialEq, Eq)]
struct Likeness {
    inode: (u64, u64),
    changed: (i64, i64),
    modified: (i64, i64),
    content: Option<Vec<u8>>,
}

impl Sentinels {
    /// Puts a file, a stale socket, a live socket and a dangling link into the directory.
    pub fn plant(&mut self, directory: &Path) {
        let at = |name: &str| directory.join(name);
        let paths = [
            at("sentinel-file-reg.sock"),
            at("sentinel-stale.sock"),
            // Hidden, because the kubelet would dial it.
            at(".sentinel-living"),
            at("sentinel-link-reg.sock"),
        ];
        fs::write(&paths[0], "not ours").unwrap();
        crate::dead_socket(&paths[1]);
        self.listeners.push(UnixListener::bind(&paths[2]).unwrap());
        symlink("/nowhere/x-reg.sock", &paths[3]).unwrap();
        for path in paths {
            let likeness = Likeness::of(&path).unwrap();
            self.planted.insert(path, likeness);
        }
    }

    /// Forgets the files of a directory that the test itself removed.
    pub fn forget(&mut self, directory: &Path) {
        self.planted.retain(|path, _| !path.starts_with(directory));
    }

    /// Whether the path is a sentinel.
    pub fn contains(&self, path: &Path) -> bool {
        self.planted.contains_key(path)
    }

    /// The sentinels that have changed.
    pub fn touched(&self) -> Vec<String> {
        let touched = self.planted.iter().filter_map(|(path, before)| {
            let now = Likeness::of(path);
            (now.as_ref() != Some(before))
                .then(|| format!("{}: {before:?}, now {now:?}", path.display()))
        });
        touched.collect()
    }
}

impl Likeness {
    fn of(path: &Path) -> Option<Self> {
        let found = fs::symlink_metadata(path).ok()?;
        Some(Self {
            inode: (found.dev(), found.ino()),
            changed: (found.ctime(), found.ctime_nsec()),
            modified: (found.mtime(), found.mtime_nsec()),
            content: found.is_file().then(|| fs::read(path).unwrap()),
        })
    }
}
