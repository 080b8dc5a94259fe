//! The plugin directory that a kubelet watches, as state.json records it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::os::process::Process;

/// A directory, told apart from a later one at the same path. The change time of a directory moves
/// with each entry, so this uses the birth time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Directory {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

/// The directory that a kubelet watches for plugins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Watched {
    pub(crate) directory: Directory,
    /// None if no kubelet has called us, or if we cannot see its pid.
    pub(crate) by: Option<Process>,
}

impl Directory {
    pub(crate) fn of(path: &Path) -> Option<Directory> {
        let metadata = fs::metadata(path).ok()?;
        Some(Directory {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: metadata.created().ok(),
        })
    }
}
