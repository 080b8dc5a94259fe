//! The environment files: systemd passes their variables to the unit, and this file reads them by
//! systemd's rules (`EnvironmentFile=` in systemd.exec(5)).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::iter::{Copied, Peekable};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::slice;

use nix::fcntl::OFlag;

use super::file::{self, FileFault};
use super::sources::Found;

type Bytes<'a> = Peekable<Copied<slice::Iter<'a, u8>>>;

/// The variables in these files that begin with `prefix`, each with its file. A later file wins.
pub(super) fn read(
    files: &[PathBuf],
    prefix: &str,
    found: &mut Found,
) -> BTreeMap<String, (PathBuf, String)> {
    let mut all = BTreeMap::new();
    for path in files {
        match content(path).and_then(|bytes| decoded(&bytes, prefix)) {
            Ok(variables) => {
                found.files.push(path.clone());
                let variables = variables.into_iter();
                all.extend(variables.map(|(name, value)| (name, (path.clone(), value))));
            }
            Err(fault) if fault.is(io::ErrorKind::NotFound) => {}
            Err(fault) => found.add_fault(path, &unless_forbidden(fault)),
        }
    }
    all.retain(|name: &String, _| name.starts_with(prefix));
    all
}

/// Permission denied is no fault of the file: systemd reads it for the daemon, and systemd may.
fn unless_forbidden(fault: FileFault) -> FileFault {
    match fault.is(io::ErrorKind::PermissionDenied) {
        true => FileFault::Ignored("permission denied; run as root".to_owned()),
        false => fault,
    }
}

fn content(path: &Path) -> Result<Vec<u8>, FileFault> {
    // Without O_NONBLOCK, open() of a FIFO waits for a process that writes.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        file::content(file)
    } else if kind.is_char_device() {
        // A link to /dev/null masks a file.
        Ok(Vec::new())
    } else {
        Err(FileFault::Ignored("not a regular file".to_owned()))
    }
}

fn decoded(bytes: &[u8], prefix: &str) -> Result<Vec<(String, String)>, FileFault> {
    let mut variables = Vec::new();
    let mut foreign = None;
    for Assignment { start, name, value } in assignments(bytes) {
        let is_ours = name.starts_with(prefix.as_bytes());
        match (String::from_utf8(name), String::from_utf8(value)) {
            (Ok(name), Ok(value)) if is_name(&name) => variables.push((name, value)),
            (Ok(_), Ok(_)) => {}
            _ => {
                let valid = bytes[start..].utf8_chunks().next();
                let before = &bytes[..start + valid.map_or(0, |chunk| chunk.valid().len())];
                if is_ours {
                    return Err(FileFault::not_utf8(before));
                }
                foreign.get_or_insert(file::place(before));
            }
        }
    }
    match foreign {
        // systemd drops the whole file, so its other variables do not reach the daemon either.
        Some(place) => Err(FileFault::Ignored(format!(
            "{place}: not UTF-8, so systemd ignores the file"
        ))),
        None => Ok(variables),
    }
}

/// A name and its value, and where the name begins in the file.
#[derive(Debug)]
struct Assignment {
    start: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

fn assignments(text: &[u8]) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    let mut bytes = text.iter().copied().peekable();
    while let Some(first) = bytes.next() {
        match first {
            // From version 254 on, systemd reads the line after a comment that ends with a
            // backslash.
            b'#' | b';' => while bytes.next().is_some_and(|c| !ends_line(c)) {},
            c if is_space(c) => {}
            c => {
                let start = text.len() - bytes.len() - 1;
                if let Some(name) = name(c, &mut bytes) {
                    let value = value(&mut bytes);
                    assignments.push(Assignment { start, name, value });
                }
            }
        }
    }
    assignments
}

/// The text before the `=`; `None` if the line has no `=`.
fn name(first: u8, bytes: &mut Bytes<'_>) -> Option<Vec<u8>> {
    let mut name = vec![first];
    loop {
        match bytes.next()? {
            b'=' => break,
            c if ends_line(c) => return None,
            c => name.push(c),
        }
    }
    while name.pop_if(|c| is_space(*c)).is_some() {}
    Some(name)
}

/// Reads up to the end of the line. Quoted parts may span lines and follow each other.
fn value(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut value = Vec::new();
    while let Some(c) = bytes.next_if(|c| is_space(*c) || matches!(c, b'\'' | b'"')) {
        match c {
            b'\'' => value.extend(bytes.take_while(|c| *c != b'\'')),
            b'"' => quoted(bytes, &mut value),
            c if ends_line(c) => return value,
            _ => {}
        }
    }
    bare(bytes, &mut value);
    value
}

/// Reads up to the closing quote.
fn quoted(bytes: &mut Bytes<'_>, value: &mut Vec<u8>) {
    while let Some(c) = bytes.next().filter(|c| *c != b'"') {
        match c {
            b'\\' => match bytes.next() {
                Some(b'\n') | None => {}
                Some(c @ (b'"' | b'\\' | b'`' | b'$')) => value.push(c),
                Some(c) => value.extend([b'\\', c]),
            },
            c => value.push(c),
        }
    }
}

/// Reads up to the end of the line, without trailing blanks. Quotes have no meaning here.
fn bare(bytes: &mut Bytes<'_>, value: &mut Vec<u8>) {
    let mut end = value.len();
    while let Some(c) = bytes.next().filter(|c| !ends_line(*c)) {
        if c == b'\\' {
            value.extend(bytes.next().filter(|c| !ends_line(*c)));
            end = value.len();
        } else {
            value.push(c);
            if !is_space(c) {
                end = value.len();
            }
        }
    }
    value.truncate(end);
}

fn is_space(c: u8) -> bool {
    matches!(c, b' ' | b'\t') || ends_line(c)
}

fn ends_line(c: u8) -> bool {
    matches!(c, b'\n' | b'\r')
}

/// systemd drops text that is not the name of a variable, such as `export NAME`.
fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(text: &str, expected: &[(&str, &str)]) {
        let found = decoded(text.as_bytes(), "NSDR_").unwrap();
        let found: Vec<_> = found.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn one_variable_stands_on_a_line() {
        reads(
            "A=1\n\n  B = two words \t\nC=",
            &[("A", "1"), ("B", "two words"), ("C", "")],
        );
        reads("A=1\r\nB=2\r\n", &[("A", "1"), ("B", "2")]);
        reads("A=b=c", &[("A", "b=c")]);
    }

    #[test]
    fn comments_and_lines_without_a_variable_are_passed_over() {
        reads(
            "# A=1\n ; B=2 \\\nC=3 # no comment",
            &[("C", "3 # no comment")],
        );
        reads("nothing\nexport A=1\nB C=2\nD=4", &[("D", "4")]);
        reads("", &[]);
        reads("# no end", &[]);
    }

    #[test]
    fn quotes_keep_blanks_and_lines() {
        reads(
            "A=' a \\ \"'  \nB=\" b '\" ",
            &[("A", " a \\ \""), ("B", " b '")],
        );
        reads(
            "A='one\ntwo' 'three'\nB=1",
            &[("A", "one\ntwothree"), ("B", "1")],
        );
        reads("A='a'b\"c\" \n", &[("A", "ab\"c\"")]);
        reads("A=b'c'", &[("A", "b'c'")]);
        reads("A='no end", &[("A", "no end")]);
        reads("A=\"no end\\", &[("A", "no end")]);
    }

    #[test]
    fn a_backslash_escapes() {
        reads("A=a\\\nb\nB=x\\ ", &[("A", "ab"), ("B", "x ")]);
        reads("A=\\n\\\\\\\"", &[("A", "n\\\"")]);
        reads("A=\"\\n\\\"\\\\\\$\\`\\\nx\"", &[("A", "\\n\"\\$`x")]);
        reads("A='\\n'", &[("A", "\\n")]);
        reads("A=\\", &[("A", "")]);
    }

    #[test]
    fn a_command_that_may_not_read_a_file_warns() {
        let fault = unless_forbidden(io::Error::from(io::ErrorKind::PermissionDenied).into());
        let mut found = Found::default();
        found.add_fault(Path::new("/etc/default/x"), &fault);
        assert_eq!(
            found.warnings,
            ["/etc/default/x: its variables are ignored: permission denied; run as root"]
        );
    }
}
