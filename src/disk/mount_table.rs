//! The table of mounts of this process, as the kernel shows it in mountinfo.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

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

/// Blanks, newlines and backslashes are written as `\040`, so each backslash starts three digits.
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
    fn a_line_has_a_mount_point_and_a_source_with_blanks_and_backslashes() {
        let point_and_source = |line: &str| {
            let entry = MountEntry::parse(line.as_bytes()).unwrap();
            (entry.point, entry.source)
        };
        assert_eq!(
            point_and_source("3 1 0:9 / /a\\040b rw shared:2 master:1 - nfs4 server:/export rw"),
            ("/a b".into(), "server:/export".to_owned())
        );
        assert_eq!(
            point_and_source("5 1 0:9 / /c rw - cifs \\\\server\\x rw"),
            ("/c".into(), "\\\\server\\x".to_owned())
        );
    }
}
