//! The nesting of directories: whether two paths lead to the same directory, or one leads below the
//! other.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use crate::disk::directory::{inode, is_same};

/// A plugins_registry has few directories, but a mount may show a whole file system in it.
const WALK_MAX: usize = 256;

/// Whether `inner` is strictly below `outer`, as the paths are written or as they resolve.
pub(crate) fn lies_below(inner: &Path, outer: &Path) -> bool {
    let (there, above) = (resolved(inner), resolved(outer));
    is_below(inner, outer) || is_below(&there, &above) || is_mounted_below(&there, &above)
}

/// Whether both paths lead to the same directory, also if it does not exist yet.
pub(crate) fn is_one(a: &Path, b: &Path) -> bool {
    // Two paths can lead to the same directory through a bind mount or a link.
    a == b || is_same(a, b).unwrap_or_else(|| resolved(a) == resolved(b))
}

/// Where the path leads, as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|there| {
        let rest = path.strip_prefix(there).ok()?;
        let there = fs::canonicalize(there).ok()?;
        // To join nothing would add a slash.
        Some(match rest.as_os_str().is_empty() {
            true => there,
            false => there.join(rest),
        })
    });
    found.unwrap_or_else(|| path.to_owned())
}

fn is_below(inner: &Path, outer: &Path) -> bool {
    inner != outer && inner.starts_with(outer)
}

/// A bind mount shows a directory under a second path, which canonicalize() does not resolve.
fn is_mounted_below(inner: &Path, outer: &Path) -> bool {
    let Some(top) = inode(outer) else {
        return false;
    };
    let way: BTreeSet<_> = inner.ancestors().filter_map(inode).collect();
    let mut above = inner.ancestors().skip(1).filter_map(inode);
    above.any(|directory| directory == top) || holds_any(outer, &way)
}

/// Whether one of these directories is below `outer`. The walk follows mounts but not links, as the
/// kubelet's does.
fn holds_any(outer: &Path, wanted: &BTreeSet<(u64, u64)>) -> bool {
    let mut open = vec![outer.to_owned()];
    for _ in 0..WALK_MAX {
        let Some(directory) = open.pop() else {
            return false;
        };
        // The code that uses the directory reports that it cannot be read.
        let entries = fs::read_dir(&directory).into_iter().flatten();
        // Most entries are links and sockets; the directory entry itself has the type.
        let is_directory = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        for entry in entries.filter_map(Result::ok).filter(is_directory) {
            let path = entry.path();
            if inode(&path).is_some_and(|found| wanted.contains(&found)) {
                return true;
            }
            open.push(path);
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path compares equal with and without the slash; its text does not.
    #[test]
    fn a_path_that_exists_resolves_without_a_slash_at_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let text = |path: &Path| resolved(path).into_os_string();
        assert_eq!(text(&root), root.as_os_str());
        let below = root.join("none/further");
        assert_eq!(text(&below), below.as_os_str());
    }
}
