//! The files from which systemd takes the unit's variables, read as systemd reads them:
//! `EnvironmentFile=` in systemd.exec(5).

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::path::PathBuf;
use std::str::Chars;

use super::error::Problem;
use super::file;

/// What is assigned in these files, each with the file it is in; of two with one name the later.
pub(super) fn assigned(files: &[PathBuf]) -> (BTreeMap<String, (PathBuf, String)>, Vec<Problem>) {
    let (mut variables, mut problems) = (BTreeMap::new(), Vec::new());
    for path in files {
        match file::text(path) {
            Ok(text) => {
                for (name, value) in assignments(&text) {
                    variables.insert(name, (path.clone(), value));
                }
            }
            Err(problem) if problem.is_missing_file() => {}
            Err(problem) => problems.push(problem),
        }
    }
    (variables, problems)
}

fn assignments(text: &str) -> Vec<(String, String)> {
    let mut assignments = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(first) = chars.next() {
        match first {
            // Of a comment that ends with a backslash systemd from 254 on reads the next line, too.
            '#' | ';' => while chars.next().is_some_and(|c| !ends_line(c)) {},
            c if is_space(c) => {}
            c => {
                let Some(name) = name(c, &mut chars) else {
                    continue;
                };
                let value = value(&mut chars);
                if is_name(&name) {
                    assignments.push((name, value));
                }
            }
        }
    }
    assignments
}

/// What stands before the `=`; nothing when the line ends without one.
fn name(first: char, chars: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut name = String::from(first);
    loop {
        match chars.next() {
            None => return None,
            Some(c) if ends_line(c) => return None,
            Some('=') => break,
            Some(c) => name.push(c),
        }
    }
    name.truncate(name.trim_end_matches(is_space).len());
    Some(name)
}

/// Up to the end of the line. Parts in quotes may go over several, and stand one after the other.
fn value(chars: &mut Peekable<Chars<'_>>) -> String {
    let mut value = String::new();
    while let Some(c) = chars.next_if(|c| !is_bare(*c)) {
        match c {
            '\'' => value.extend(chars.take_while(|c| *c != '\'')),
            '"' => quoted(chars, &mut value),
            c if ends_line(c) => return value,
            _ => {}
        }
    }
    bare(chars, &mut value);
    value
}

/// What begins a part that is not in quotes.
fn is_bare(c: char) -> bool {
    !is_space(c) && c != '\'' && c != '"'
}

/// Up to the closing quote.
fn quoted(chars: &mut Peekable<Chars<'_>>, value: &mut String) {
    while let Some(c) = chars.next().filter(|c| *c != '"') {
        if c != '\\' {
            value.push(c);
            continue;
        }
        match chars.next() {
            Some('\n') | None => {}
            Some(c @ ('"' | '\\' | '`' | '$')) => value.push(c),
            Some(c) => value.extend(['\\', c]),
        }
    }
}

/// Up to the end of the line, without the blanks there. Quotes mean nothing any more.
fn bare(chars: &mut Peekable<Chars<'_>>, value: &mut String) {
    let mut end = value.len();
    while let Some(c) = chars.next().filter(|c| !ends_line(*c)) {
        if c == '\\' {
            value.extend(chars.next().filter(|c| !ends_line(*c)));
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

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t') || ends_line(c)
}

fn ends_line(c: char) -> bool {
    matches!(c, '\n' | '\r')
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
        let found = assignments(text);
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
}
