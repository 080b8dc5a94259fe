//! The columns of a terminal that a text takes: two for a wide character, such as a Chinese one, none
//! for a combining one, and none for the escape sequences of colours.

use textwrap::core::Word;
pub(crate) use textwrap::core::display_width as columns;

/// `text` with blanks after it, so that it takes at least `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(columns(text)))
}

/// `text`, or as much of its beginning as fits into `width` columns together with `…`.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let text = Word::from(text);
    let first = text.break_apart(width.saturating_sub(1)).next();
    // A piece has at least one character, even where there is room for none.
    let first = first.filter(|piece| piece.width < width);
    format!("{}…", first.map_or("", |piece| piece.word))
}

/// How many rows of a terminal with `width` columns a line takes, and how many columns of the last
/// row. A wide character that does not fit into a row goes to the next row as a whole.
pub(crate) fn rows(line: &str, width: usize) -> (usize, usize) {
    let line = Word::from(line);
    let pieces = line.break_apart(width);
    let (rows, last) = pieces.fold((0, 0), |(rows, _), piece| (rows + 1, piece.width));
    (rows.max(1), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_character_takes_two_columns_and_a_combining_one_none() {
        for (text, taken) in [("csi", 3), ("存储", 4), ("🚀", 2), ("e\u{301}", 1), ("", 0)] {
            assert_eq!(columns(text), taken, "{text}");
        }
        assert_eq!(padded("存储", 6), "存储  ");
        assert_eq!(padded("e\u{301}", 2), "e\u{301} ");
        assert_eq!(padded("longer", 2), "longer");
    }

    #[test]
    fn a_terminal_breaks_a_line_where_it_is_full_and_no_wide_character_in_two() {
        for (line, count, last) in [
            ("", 1, 0),
            ("abcd", 1, 4),
            ("abcde", 1, 5),
            ("abcdef", 2, 1),
            ("存储节", 2, 2),
            ("abcde\u{301}", 1, 5),
            ("\u{1b}[31mabcde\u{1b}[0m", 1, 5),
        ] {
            assert_eq!(rows(line, 5), (count, last), "{line}");
        }
    }

    #[test]
    fn what_is_shortened_fits() {
        assert_eq!(shortened("node-1", 6), "node-1");
        assert_eq!(shortened("node-10", 6), "node-…");
        assert_eq!(shortened("存储节点", 6), "存储…");
        assert_eq!(shortened("存储节点", 5), "存储…");
        assert_eq!(shortened("存储节点", 2), "…");
        assert_eq!(shortened("node-10", 1), "…");
    }
}
