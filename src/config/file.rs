//! The configuration files: the main one and the drop-ins beside it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use figment::providers::{Format, Toml};
use figment::value::Dict;

use super::error::Problem;
use super::layer::Layer;
use super::origin::Origin;
use crate::os::text::printable;

const DROP_INS: &str = "config.d";

/// Far more than any configuration needs; `--config /dev/zero` ends here.
pub(super) const SIZE_MAX: u64 = 1 << 20;

/// Whether the main file may be missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
}

/// The main file and its drop-ins, in the order in which they count.
pub(super) fn layers(main: &Path, presence: Presence) -> (Vec<Layer>, Vec<Problem>) {
    let (mut layers, mut problems) = (Vec::new(), Vec::new());
    match read(main) {
        Ok(dict) => layers.push(Layer::new(Origin::File(main.to_owned()), dict)),
        Err(problem) if presence == Presence::Optional && problem.is_missing_file() => {}
        Err(problem) => problems.push(problem),
    }
    match drop_ins(&main.with_file_name(DROP_INS)) {
        Ok(paths) => {
            for path in paths {
                match read(&path) {
                    Ok(dict) => layers.push(Layer::new(Origin::File(path), dict)),
                    Err(problem) => problems.push(problem),
                }
            }
        }
        Err(problem) => problems.push(problem),
    }
    (layers, problems)
}

/// The drop-ins in byte order of their names. What is no regular file is passed over, so a
/// link to /dev/null masks a drop-in as it does for systemd; a dangling link is left in, to be
/// an error when it is read.
fn drop_ins(dir: &Path) -> Result<Vec<PathBuf>, Problem> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |source| Problem::Unreadable { path, source }
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(dir)(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable(dir))?;
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

fn read(path: &Path) -> Result<Dict, Problem> {
    parse(path, &bytes(path)?)
}

fn bytes(path: &Path) -> Result<Vec<u8>, Problem> {
    let file = File::open(path).map_err(|source| Problem::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    content(path, file)
}

/// All that is in the file at `path`.
pub(super) fn content(path: &Path, file: File) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    file.take(SIZE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| Problem::Unreadable {
            path: path.to_owned(),
            source,
        })?;
    if bytes.len() as u64 > SIZE_MAX {
        return Err(Problem::TooLarge {
            path: path.to_owned(),
        });
    }
    Ok(bytes)
}

fn utf8<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a str, Problem> {
    std::str::from_utf8(bytes).map_err(|error| {
        let (line, column) = place(&bytes[..error.valid_up_to()]);
        Problem::NotUtf8 {
            path: path.to_owned(),
            line,
            column,
        }
    })
}

pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Dict, Problem> {
    Toml::from_str(utf8(path, bytes)?).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start.min(bytes.len()));
        let (line, column) = place(&bytes[..at]);
        // The parser's message has a line for what it found and one for what it wanted.
        let message = printable(&error.message().trim().replace('\n', ", "));
        Problem::Syntax {
            path: path.to_owned(),
            line,
            column,
            message,
        }
    })
}

/// The line and column, counted from one, that come after this much of a file.
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
