//! The files from which systemd takes the unit's variables, read as systemd reads them:
//! `EnvironmentFile=` in systemd.exec(5).

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io;
use std::iter::{Copied, Peekable};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::slice;

use nix::fcntl::OFlag;

use super::error::Problem;
use super::file;

type Bytes<'a> = Peekable<Copied<slice::Iter<'a, u8>>>;

/// What these files hold.
#[derive(Debug, Default)]
pub(super) struct Assigned {
    /// Each with the file it is in; of two with one name the later.
    pub(super) variables: BTreeMap<String, (PathBuf, String)>,
    pub(super) problems: Vec<Problem>,
    /// Files that do not count although they are there.
    pub(super) warnings: Vec<String>,
}

/// What is assigned in these files. Only what begins with `prefix` can be wrong.
pub(super) fn assigned(files: &[PathBuf], prefix: &str) -> Assigned {
    let mut all = Assigned::default();
    for path in files {
        match read(path).and_then(|bytes| decoded(path, &bytes, prefix)) {
            Ok(variables) => {
                for (name, value) in variables {
                    all.variables.insert(name, (path.clone(), value));
                }
            }
            Err(Fault::Missing) => {}
            Err(Fault::Warning(warning)) => all.warnings.push(warning),
            Err(Fault::Problem(problem)) => all.problems.push(*problem),
        }
    }
    all
}

/// Why nothing is taken from a file.
#[derive(Debug)]
enum Fault {
    Missing,
    Warning(String),
    Problem(Box<Problem>),
}

impl Fault {
    fn warning(path: &Path, why: &str, remedy: &str) -> Fault {
        let path = path.display();
        Fault::Warning(format!(
            "cannot read {path} ({why}): its variables are not taken into account{remedy}"
        ))
    }
}

impl From<Problem> for Fault {
    fn from(problem: Problem) -> Fault {
        match problem {
            problem if problem.is_missing_file() => Fault::Missing,
            // It is systemd that reads it for the daemon, and systemd may.
            Problem::Unreadable { path, source }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                Fault::warning(&path, "permission denied", "; run as root")
            }
            other => Fault::Problem(Box::new(other)),
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let unreadable = |source| Problem::Unreadable {
        path: path.to_owned(),
        source,
    };
    // A FIFO would have us wait for somebody who writes.
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(unreadable)?;
    let kind = file.metadata().map_err(unreadable)?.file_type();
    if kind.is_char_device() {
        // A link to /dev/null masks a file.
        return Err(Fault::Missing);
    }
    if !kind.is_file() {
        return Err(Fault::warning(path, "not a regular file", ""));
    }
    Ok(file::content(path, file)?)
}

fn decoded(path: &Path, bytes: &[u8], prefix: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut variables = Vec::new();
    let mut foreign = None;
    for assignment in assignments(bytes) {
        let is_ours = assignment.name.starts_with(prefix.as_bytes());
        match assignment.decoded() {
            Some((name, value)) if is_name(&name) => variables.push((name, value)),
            Some(_) => {}
            None => {
                let (line, column) = file::place(&bytes[..assignment.fault(bytes)]);
                if is_ours {
                    let path = path.to_owned();
                    return Err(Problem::NotUtf8 { path, line, column }.into());
                }
                foreign.get_or_insert((line, column));
            }
        }
    }
    match foreign {
        // The variables beside it do not reach the daemon, either.
        Some((line, column)) => {
            let why = format!(
                "line {line}, column {column}: not UTF-8, and systemd passes over the file"
            );
            Err(Fault::warning(path, &why, ""))
        }
        None => Ok(variables),
    }
}

/// A name and its value, and where in the file they begin.
#[derive(Debug)]
struct Assignment {
    start: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Assignment {
    fn decoded(&self) -> Option<(String, String)> {
        let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some((text(&self.name)?, text(&self.value)?))
    }

    /// The place in the file of the first byte that is not UTF-8.
    fn fault(&self, file: &[u8]) -> usize {
        let good = match std::str::from_utf8(&file[self.start..]) {
            Ok(_) => 0,
            Err(error) => error.valid_up_to(),
        };
        self.start + good
    }
}

fn assignments(text: &[u8]) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    let mut bytes = text.iter().copied().peekable();
    while let Some(first) = bytes.next() {
        match first {
            // Of a comment that ends with a backslash systemd from 254 on reads the next line, too.
            b'#' | b';' => while bytes.next().is_some_and(|c| !ends_line(c)) {},
            c if is_space(c) => {}
            c => {
                let start = text.len() - bytes.len() - 1;
                let Some(name) = name(c, &mut bytes) else {
                    continue;
                };
                let value = value(&mut bytes);
                assignments.push(Assignment { start, name, value });
            }
        }
    }
    assignments
}

/// What stands before the `=`; nothing when the line ends without one.
fn name(first: u8, bytes: &mut Bytes<'_>) -> Option<Vec<u8>> {
    let mut name = vec![first];
    loop {
        match bytes.next() {
            None => return None,
            Some(c) if ends_line(c) => return None,
            Some(b'=') => break,
            Some(c) => name.push(c),
        }
    }
    while name.pop_if(|c| is_space(*c)).is_some() {}
    Some(name)
}

/// Up to the end of the line. Parts in quotes may go over several, and stand one after the other.
fn value(bytes: &mut Bytes<'_>) -> Vec<u8> {
    let mut value = Vec::new();
    while let Some(c) = bytes.next_if(|c| !is_bare(*c)) {
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

/// What begins a part that is not in quotes.
fn is_bare(c: u8) -> bool {
    !is_space(c) && c != b'\'' && c != b'"'
}

/// Up to the closing quote.
fn quoted(bytes: &mut Bytes<'_>, value: &mut Vec<u8>) {
    while let Some(c) = bytes.next().filter(|c| *c != b'"') {
        if c != b'\\' {
            value.push(c);
            continue;
        }
        match bytes.next() {
            Some(b'\n') | None => {}
            Some(c @ (b'"' | b'\\' | b'`' | b'$')) => value.push(c),
            Some(c) => value.extend([b'\\', c]),
        }
    }
}

/// Up to the end of the line, without the blanks there. Quotes mean nothing any more.
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

/// systemd drops what is no name of a variable, such as `export NAME`.
fn is_name(name: &str) -> bool {
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn reads(text: &str, expected: &[(&str, &str)]) {
        let found = decoded(Path::new("file"), text.as_bytes(), "NSDR_").unwrap();
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
    fn who_may_not_read_a_file_is_warned() {
        let refused = Problem::Unreadable {
            path: PathBuf::from("/etc/default/x"),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let Fault::Warning(told) = Fault::from(refused) else {
            panic!("no warning")
        };
        assert_eq!(
            told,
            "cannot read /etc/default/x (permission denied): \
             its variables are not taken into account; run as root"
        );
    }
}
