//! The table of mounts of this process, as the kernel shows it in mountinfo.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// The table of the thread that opens it.
pub(super) const TABLE: &str = "/proc/thread-self/mountinfo";

/// A line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountEntry {
    pub(super) id: String,
    pub(crate) point: PathBuf,
    /// The kind of file system, such as ext4.
    pub(crate) kind: String,
    /// A device, a server with its directory, or any word.
    pub(crate) source: String,
}

impl MountEntry {
    /// The mount that the file or directory at `path` is on. `path` has no links.
    pub(crate) fn of(path: &Path) -> Option<MountEntry> {
        deepest(above(path)?)
    }

    /// `36 35 98:0 /root /mount/point options [tags] - kind source options`, as in proc(5).
    pub(crate) fn parse(line: &[u8]) -> Option<MountEntry> {
        let mut fields = line.split(|byte| *byte == b' ');
        let id = fields.next()?;
        let point = fields.nth(3)?;
        let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
        let kind = fields.next()?;
        // Some file systems write their source themselves, and do not escape backslashes.
        let source = fields.next().unwrap_or_default();
        let source = unescaped(source).unwrap_or_else(|| source.to_vec());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Some(MountEntry {
            id: text(id),
            point: PathBuf::from(OsString::from_vec(unescaped(point)?)),
            kind: text(kind),
            source: text(&source),
        })
    }
}

/// The mounts at `path` and above it, of the present table; none if the table cannot be read, which says
/// nothing about any mount. Others are not kept, because a node with many pods has thousands.
pub(super) fn above(path: &Path) -> Option<Vec<MountEntry>> {
    let table = File::open(TABLE).and_then(|table| read(BufReader::new(table), path));
    let failed = |error: &io::Error| tracing::debug!(%error, "cannot read the table of mounts");
    table.inspect_err(failed).ok()
}

fn read(table: impl BufRead, path: &Path) -> io::Result<Vec<MountEntry>> {
    let mut entries = Vec::new();
    for line in table.split(b'\n') {
        let entry = MountEntry::parse(&line?);
        entries.extend(entry.filter(|entry| path.starts_with(&entry.point)));
    }
    Ok(entries)
}

/// The deepest mount. Of several mounts at one point, the last hides the others.
fn deepest(above: Vec<MountEntry>) -> Option<MountEntry> {
    let mounts = above.into_iter();
    mounts.max_by_key(|mount| mount.point.components().count())
}

/// Blanks, newlines and backslashes are written as `\040`, so each backslash starts three digits. fstab(5)
/// has the same rule.
pub(super) fn unescaped(field: &[u8]) -> Option<Vec<u8>> {
    let mut parts = field.split(|byte| *byte == b'\\');
    let mut bytes = parts.next()?.to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(3)?;
        bytes.push(u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()?);
        bytes.extend(rest);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_and_last_mount_above_a_path_is_the_mount_of_the_path() {
        let table = "\
            1 0 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
            2 1 8:2 / /a\\040b rw - xfs /dev/sdb rw\n\
            3 1 0:9 / /a\\040b rw shared:2 master:1 - nfs4 server:/export rw\n\
            4 1 0:9 / /a rw - tmpfs tmpfs rw\n\
            5 1 0:9 / /c rw - cifs \\\\server\\x rw\n";
        let source = |path: &str| {
            let above = read(table.as_bytes(), Path::new(path)).unwrap();
            deepest(above).unwrap().source
        };
        assert_eq!(source("/a b/c"), "server:/export");
        assert_eq!(source("/a/b"), "tmpfs");
        assert_eq!(source("/ab"), "/dev/sda1");
        assert_eq!(source("/c"), "\\\\server\\x");
        assert!(MountEntry::of(Path::new("/")).is_some());
    }
}
