//! Breaks text into lines of a given width.

use crate::os::columns::columns;

/// `text` in lines of at most `width` columns, broken at blanks only: half a path can neither be
/// copied nor found. A word that is wider than a line has a line of its own, which the terminal
/// breaks at its edge and joins again when it is copied. Without a width, `text` as it is.
pub(crate) fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && columns(&line) + 1 + columns(word) > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn breaks_at_blanks_and_never_inside_a_word() {
        assert_eq!(wrap("one two three", Some(7)), ["one two", "three"]);
        assert_eq!(
            wrap("at /a/long/path now", Some(6)),
            ["at", "/a/long/path", "now"]
        );
        assert_eq!(wrap("  ", Some(6)), [""; 0]);
    }

    #[test]
    fn counts_columns_and_not_characters() {
        assert_eq!(wrap("存储 存储 存储", Some(10)), ["存储 存储", "存储"]);
        assert_eq!(wrap("e\u{301}e\u{301} e\u{301}", Some(4)).len(), 1);
    }

    #[test]
    fn leaves_text_without_a_width_as_it_is() {
        let text = "mv '/a  b' ".repeat(40);
        assert_eq!(wrap(&text, None), [text]);
    }
}
