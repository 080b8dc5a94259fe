//! The configuration files: the main file and the drop-ins beside it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
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
}

impl FileFault {
    /// Bytes that are not UTF-8 after `before`.
    fn not_utf8(before: &[u8]) -> Self {
        Self::Syntax(place(before), "not UTF-8".to_owned())
    }

    fn is(&self, kind: io::ErrorKind) -> bool {
        matches!(self, Self::Unreadable(error) if error.kind() == kind)
    }
}

/// Reads the main file and its drop-ins, in the order in which they count.
pub(super) fn read(main: &Path, may_be_missing: bool, found: &mut Found) {
    match dict(main) {
        Err(fault) if may_be_missing && fault.is(io::ErrorKind::NotFound) => {
            found.pass_over(main, "does not exist");
            let directory = main.parent().filter(|directory| directory.is_dir());
            found.directories.extend(directory.map(Path::to_owned));
        }
        dict => found.add_file(main, dict),
    }
    let dir = main.with_file_name(DROP_INS);
    match entries(&dir) {
        Ok(paths) => {
            found.directories.push(dir);
            for path in paths {
                match not_a_drop_in(&path) {
                    Some(why) => found.pass_over(&path, why),
                    None => found.add_file(&path, dict(&path)),
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => found.add_file(&dir, Err(error.into())),
    }
}

/// The files of a directory in the byte order of their names.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(dir)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    Ok(paths)
}

/// Why a file in config.d does not count; `None` if it does. A link to /dev/null masks a drop-in, as
/// it does for systemd. A dangling link counts, and is an error when it is read.
fn not_a_drop_in(path: &Path) -> Option<&'static str> {
    let name = path.file_name().unwrap_or_default().as_bytes();
    if name.starts_with(b".") {
        return Some("hidden, because its name starts with a dot");
    }
    if name.ends_with(b"~") {
        return Some("not *.toml, but the backup of an editor");
    }
    if !name.ends_with(b".toml") {
        return Some("not *.toml");
    }
    let kind = fs::metadata(path).ok()?.file_type();
    match kind {
        kind if kind.is_file() => None,
        kind if kind.is_dir() => Some("a directory"),
        kind if kind.is_char_device() => Some("masked by a link to a device"),
        _ => Some("not a regular file"),
    }
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
fn content(file: File) -> Result<Vec<u8>, FileFault> {
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > SIZE_MAX {
        true => Err(FileFault::TooLarge),
        false => Ok(bytes),
    }
}

/// The line and column, counted from 1, of what follows this part of a file.
fn place(before: &[u8]) -> String {
    let before = String::from_utf8_lossy(before);
    let last = before.rsplit('\n').next().unwrap_or_default();
    let (line, column) = (before.split('\n').count(), last.chars().count() + 1);
    format!("line {line}, column {column}")
}
