//! What tells a file from any other that had or will have its name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Of what is at `path`, not of what it points to; nothing when nothing is there.
pub fn identity(path: &Path) -> Option<(u64, u64, i64, i64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}
