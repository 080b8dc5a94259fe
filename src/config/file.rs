//! The configuration files: the main file and the drop-ins beside it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::Dict;

use super::error::Problem;
use super::layer::Layer;
use super::origin::Origin;
use super::sources::Found;
use crate::os::text::printable;

const DROP_INS: &str = "config.d";

/// Far more than any configuration needs. It ends the reading of `--config /dev/zero`.
pub(super) const SIZE_MAX: u64 = 1 << 20;

/// Reads the main file and its drop-ins, in the order in which they count.
pub(super) fn read(main: &Path, may_be_missing: bool, found: &mut Found) {
    match layer(main) {
        Err(problem) if may_be_missing && problem.is_missing_file() => {}
        layer => found.add(layer),
    }
    match drop_ins(&main.with_file_name(DROP_INS)) {
        Ok(paths) => paths.iter().for_each(|path| found.add(layer(path))),
        Err(problem) => found.problems.push(problem),
    }
}

fn layer(path: &Path) -> Result<Option<Layer>, Problem> {
    let file = File::open(path).map_err(Problem::unreadable(path))?;
    let dict = parse(path, &content(path, file)?)?;
    let origin = Origin::File(path.to_owned());
    Ok(Some(Layer { origin, dict }))
}

/// The drop-ins in byte order of their names. Only regular files count, so a link to /dev/null masks
/// a drop-in, as it does for systemd. A dangling link stays in, and is an error when it is read.
fn drop_ins(dir: &Path) -> Result<Vec<PathBuf>, Problem> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Problem::unreadable(dir)(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(Problem::unreadable(dir))?;
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

/// The bytes of the file at `path`.
pub(super) fn content(path: &Path, file: File) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(Problem::unreadable(path))?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(Problem::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
}

fn parse(path: &Path, bytes: &[u8]) -> Result<Dict, Problem> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| not_utf8(path, &bytes[..error.valid_up_to()]))?;
    Toml::from_str(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(bytes.len()));
        // The parser reports what it found and what it expected on separate lines.
        let message = printable(&error.message().trim().replace('\n', ", "));
        syntax(path, &bytes[..at], message)
    })
}

/// The bytes after `before` are not UTF-8.
pub(super) fn not_utf8(path: &Path, before: &[u8]) -> Problem {
    syntax(path, before, "not UTF-8".to_owned())
}

fn syntax(path: &Path, before: &[u8], message: String) -> Problem {
    let (line, column) = place(before);
    Problem::Syntax {
        path: path.to_owned(),
        line,
        column,
        message,
    }
}

/// The line and column, counted from 1, of what follows this part of a file.
pub(super) fn place(before: &[u8]) -> (usize, usize) {
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let start = before
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(0, |newline| newline + 1);
    (
        line,
        String::from_utf8_lossy(&before[start..]).chars().count() + 1,
    )
}
