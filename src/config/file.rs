//! The configuration files: the main file and the drop-ins beside it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::Dict;

use super::sources::Found;
use crate::os::text::printable;

const DROP_INS: &str = "config.d";

/// Far more than any configuration needs. It ends the reading of `--config /dev/zero`.
const SIZE_MAX: u64 = 1 << 20;

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileFault {
    /// It is missing or cannot be read.
    #[error("cannot read the configuration: {0}")]
    Unreadable(#[from] io::Error),
    /// It is too large for a configuration.
    #[error("larger than {SIZE_MAX} bytes")]
    TooLarge,
    /// It is not UTF-8 or not TOML, at this line and column.
    #[error("{0}: {1}")]
    Syntax(String, String),
    /// It is an environment file that does not count for a command, for this reason.
    #[error("its variables are ignored: {0}")]
    Ignored(String),
}

impl FileFault {
    /// Bytes that are not UTF-8 after `before`.
    pub(super) fn not_utf8(before: &[u8]) -> Self {
        Self::Syntax(place(before), "not UTF-8".to_owned())
    }

    pub(super) fn is(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() == kind)
    }
}

/// Reads the main file and its drop-ins, in the order in which they count.
pub(super) fn read(main: &Path, may_be_missing: bool, found: &mut Found) {
    match dict(main) {
        Err(fault) if may_be_missing && fault.is(io::ErrorKind::NotFound) => {}
        dict => found.add_file(main, dict),
    }
    let dir = main.with_file_name(DROP_INS);
    match drop_ins(&dir) {
        Ok(paths) => paths
            .iter()
            .for_each(|path| found.add_file(path, dict(path))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => found.add_file(&dir, Err(error.into())),
    }
}

/// The drop-ins in byte order of their names. Only regular files count, so a link to /dev/null
/// masks a drop-in, as it does for systemd. A dangling link stays in, and is an error when it is
/// read.
fn drop_ins(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.as_bytes();
        if name.starts_with(b".") || !name.ends_with(b".toml") {
            continue;
        }
        match fs::metadata(entry.path()) {
            Ok(target) if !target.is_file() => {}
            _ => paths.push(entry.path()),
        }
    }
    paths.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    Ok(paths)
}

fn dict(path: &Path) -> Result<Dict, FileFault> {
    let bytes = content(File::open(path)?)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|error| FileFault::not_utf8(&bytes[..error.valid_up_to()]))?;
    Toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(bytes.len()));
        // The parser reports what it found and what it expected on separate lines.
        let message = printable(&error.message().trim().replace('\n', ", "));
        FileFault::Syntax(place(&bytes[..at]), message)
    })
}

/// The bytes of a file.
pub(super) fn content(file: File) -> Result<Vec<u8>, FileFault> {
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > SIZE_MAX {
        true => Err(FileFault::TooLarge),
        false => Ok(bytes),
    }
}

/// The line and column, counted from 1, of what follows this part of a file.
pub(super) fn place(before: &[u8]) -> String {
    let before = String::from_utf8_lossy(before);
    let last = before.rsplit('\n').next().unwrap_or_default();
    let (line, column) = (before.split('\n').count(), last.chars().count() + 1);
    format!("line {line}, column {column}")
}
