//! How much room a text takes on a terminal. A wide character, such as a Chinese one, takes two
//! columns, and a combining one none.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// How a terminal breaks a line at its edge.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    pub(crate) rows: usize,
    /// The columns that are taken in the last row.
    pub(crate) last: usize,
}

impl Fold {
    /// Of a line on a terminal with `width` columns. A wide character that does not fit into a row
    /// goes to the next one as a whole.
    pub(crate) fn of(line: &str, width: usize) -> Fold {
        let mut fold = Fold { rows: 1, last: 0 };
        for taken in line.chars().filter_map(UnicodeWidthChar::width) {
            if fold.last + taken > width {
                fold.rows += 1;
                fold.last = 0;
            }
            fold.last += taken;
        }
        fold
    }
}

/// The columns that `text`, which is without escape sequences, takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// `text` with blanks behind it, so that it takes at least `width` columns.
pub(crate) fn padded(text: &str, width: usize) -> String {
    format!("{text}{:1$}", "", width.saturating_sub(columns(text)))
}

/// `text` cut where it would take more than `width` columns, with a sign that it was.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut room = width.saturating_sub(1);
    let fits = |c: &char| {
        let taken = c.width().unwrap_or(0);
        let fits = taken <= room;
        room = room.saturating_sub(taken);
        fits
    };
    let mut short: String = text.chars().take_while(fits).collect();
    short.push('…');
    short
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
        for (line, rows, last) in [
            ("", 1, 0),
            ("abcd", 1, 4),
            ("abcde", 1, 5),
            ("abcdef", 2, 1),
            ("存储节", 2, 2),
            ("abcde\u{301}", 1, 5),
        ] {
            assert_eq!(Fold::of(line, 5), Fold { rows, last }, "{line}");
        }
    }

    #[test]
    fn what_is_shortened_fits() {
        assert_eq!(shortened("node-1", 6), "node-1");
        assert_eq!(shortened("node-10", 6), "node-…");
        assert_eq!(shortened("存储节点", 6), "存储…");
        assert_eq!(shortened("存储节点", 5), "存储…");
    }
}
