//! Text in lines of a given width.

use std::borrow::Cow;

use textwrap::{Options, WordSplitter};

/// `text` in lines of at most `width` columns, broken at blanks only: half a path can neither be
/// copied nor found. A word that is wider than a line gets a line of its own, which the terminal
/// breaks at its edge and joins again when a user copies it. Without a width, `text` as it is.
pub(crate) fn wrap(text: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width else {
        return vec![text.to_owned()];
    };
    let options = Options::new(width)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options).into_iter();
    let filled = lines.filter(|line| !line.is_empty());
    filled.map(Cow::into_owned).collect()
}

/// Lines with `key` before the first line, and blanks in its place before the others.
pub(crate) fn keyed(key: &str, width: usize, lines: Vec<String>) -> Vec<String> {
    let keys = std::iter::once(key).chain(std::iter::repeat(""));
    let line = |(key, line)| format!("{key:<width$}{line}");
    keys.zip(lines).map(line).collect()
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
