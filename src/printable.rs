//! Text from strangers, made fit for a log line, a status reason or a terminal.
//!
//! A driver's answer and a kubelet's error are somebody else's words: they may hold control
//! characters, escape sequences or megabytes.

const MOST: usize = 512;

/// `text` on one line, with control characters escaped, cut after 512 characters.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len().min(MOST));
    for (count, c) in text.trim().chars().enumerate() {
        if count == MOST {
            out.push('…');
            break;
        }
        // U+2028, U+2029 and the bidirectional controls break or reorder a line without being
        // control characters to `char::is_control`.
        if c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_plain_words_as_they_are() {
        assert_eq!(printable(" csi.sock é 中文 "), "csi.sock é 中文");
    }

    #[test]
    fn escapes_what_would_break_a_line_or_a_terminal() {
        assert_eq!(
            printable("a\nb\u{1b}[31m\u{202e}"),
            "a\\nb\\u{1b}[31m\\u{202e}"
        );
    }

    #[test]
    fn cuts_what_is_too_long() {
        assert_eq!(printable(&"x".repeat(10_000)).chars().count(), MOST + 1);
    }
}
