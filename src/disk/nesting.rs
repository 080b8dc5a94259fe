//! Whether a directory lies below another one: by its name, or by where it leads.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

use crate::disk::directory::{inode, is_same};

/// A plugins_registry has next to no directories; a mount may show a whole file system in it.
const WALK_MAX: usize = 256;

/// Whether `inner` lies strictly below `outer`, as the two are written or as they resolve.
pub(crate) fn lies_below(inner: &Path, outer: &Path) -> bool {
    let (there, above) = (resolved(inner), resolved(outer));
    is_below(inner, outer) || is_below(&there, &above) || is_mounted_below(&there, &above)
}

/// Whether both paths lead to one directory, also when it does not exist yet.
pub(crate) fn is_one(a: &Path, b: &Path) -> bool {
    // A bind mount or a link can make one directory of two paths.
    a == b || is_same(a, b).unwrap_or_else(|| resolved(a) == resolved(b))
}

/// Where the path leads, as far as it exists.
fn resolved(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|there| {
        let rest = path.strip_prefix(there).ok()?;
        Some(fs::canonicalize(there).ok()?.join(rest))
    });
    found.unwrap_or_else(|| path.to_owned())
}

fn is_below(inner: &Path, outer: &Path) -> bool {
    inner != outer && inner.starts_with(outer)
}

/// A bind mount shows a directory at a second place, which no path tells.
fn is_mounted_below(inner: &Path, outer: &Path) -> bool {
    let Some(top) = inode(outer) else {
        return false;
    };
    let way: BTreeSet<_> = inner.ancestors().filter_map(inode).collect();
    let mut above = inner.ancestors().skip(1).filter_map(inode);
    above.any(|directory| directory == top) || holds_any(outer, &way)
}

/// Whether one of these directories shows below `outer`, in which they are looked for as the kubelet
/// does it: links are not followed, mounts are.
fn holds_any(outer: &Path, wanted: &BTreeSet<(u64, u64)>) -> bool {
    let mut open = vec![outer.to_owned()];
    for _ in 0..WALK_MAX {
        let Some(directory) = open.pop() else {
            return false;
        };
        // What cannot be read is looked at by whoever uses the directory.
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        // Most of it are links and sockets, which the directory itself tells apart.
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
