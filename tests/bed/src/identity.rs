//! The identity of a file, which no earlier or later file of the same name has.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Of the file at `path` itself, not of a link's target; None when it does not exist.
pub fn identity(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}
