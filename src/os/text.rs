//! Text from other programs, made fit for a log line, a status reason or a terminal.
//!
//! A driver's answer and a kubelet's error may contain control characters, escape sequences or
//! megabytes.

use std::path::Path;

/// The most characters of such a text.
const MOST: usize = 512;

/// `text` on one line, with control characters escaped, cut after 512 characters.
pub(crate) fn printable(text: &str) -> String {
    let text = text.trim();
    let mut out = String::with_capacity(text.len().min(MOST));
    for c in text.chars().take(MOST) {
        if garbles(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.extend(text.chars().nth(MOST).map(|_| '…'));
    out
}

/// A list on several lines as a single line: `errors:`, `  a` and `  b` become `errors: a; b`.
pub(crate) fn on_one_line(list: &str) -> String {
    let mut line = String::with_capacity(list.len());
    for part in list.lines().map(str::trim).filter(|part| !part.is_empty()) {
        if !line.is_empty() {
            line += if line.ends_with(':') { " " } else { "; " };
        }
        line += part;
    }
    line
}

/// A word of a command, as a shell reads it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A path in a command, as a shell reads it.
pub(crate) fn quoted_path(path: &Path) -> String {
    quoted(&path.to_string_lossy())
}

/// The first of these texts, separated by commas, and how many more there are.
pub(crate) fn enumerated<T: ToString>(
    all: impl ExactSizeIterator<Item = T>,
    most: usize,
) -> String {
    let more = match all.len().saturating_sub(most) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named: Vec<String> = all.take(most).map(|one| one.to_string()).collect();
    format!("{}{more}", named.join(", "))
}

/// Equivalent JSON, with the characters escaped that would reorder or hide text on a terminal. JSON has
/// such characters in strings only.
pub(crate) fn printable_json(json: String) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c == '\n' || !garbles(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            out += &format!("\\u{unit:04x}");
        }
    }
    out
}

/// Whether a character breaks, reorders or hides the text around it: the control characters, and
/// others that `char::is_control` does not know, such as U+2028, the bidirectional marks and the
/// characters without any width.
pub(crate) fn garbles(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_plain_words_as_they_are() {
        assert_eq!(printable(" csi.sock é 中文 "), "csi.sock é 中文");
    }

    #[test]
    fn a_list_becomes_a_single_line() {
        assert_eq!(
            on_one_line("2 errors:\n  a: b\n\n  c\nend"),
            "2 errors: a: b; c; end"
        );
        assert_eq!(on_one_line("a"), "a");
    }

    #[test]
    fn only_a_word_that_a_shell_would_change_is_quoted() {
        assert_eq!(quoted_path(Path::new("/p/a-b/csi.sock")), "/p/a-b/csi.sock");
        assert_eq!(quoted("a@b.service"), "a@b.service");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a'b; $(c)"), r"'a'\''b; $(c)'");
    }

    #[test]
    fn escapes_what_would_break_a_line_or_a_terminal() {
        assert_eq!(
            printable("a\nb\u{1b}[31m\u{202e}"),
            "a\\nb\\u{1b}[31m\\u{202e}"
        );
    }

    #[test]
    fn escapes_marks_that_turn_or_hide_text() {
        for mark in [
            "\u{61c}",
            "\u{200b}",
            "\u{200f}",
            "\u{2066}",
            "\u{feff}",
            "\u{e0041}",
        ] {
            assert!(
                printable(&format!("a{mark}b")).starts_with("a\\u{"),
                "{mark:?}"
            );
        }
    }

    #[test]
    fn json_says_the_same_without_them() {
        let words = ["plain é", "a\u{202e}b\n", "\u{e0041}\u{7f}"];
        let json = printable_json(serde_json::to_string_pretty(&words).unwrap());
        assert!(!json.contains(|c| c != '\n' && garbles(c)), "{json}");
        assert_eq!(serde_json::from_str::<[String; 3]>(&json).unwrap(), words);
    }

    #[test]
    fn cuts_what_is_too_long() {
        assert_eq!(printable(&"x".repeat(10_000)).chars().count(), MOST + 1);
    }
}
