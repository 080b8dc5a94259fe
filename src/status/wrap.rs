//! Breaks text into lines of a given width.

/// `text` in lines of at most `width` characters, broken at blanks; a word that is longer than a
/// line, such as a path, is cut where the line ends.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut filled = 0;
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        if filled > 0 && filled + 1 + rest.len() > width {
            lines.push(std::mem::take(&mut line));
            filled = 0;
        }
        if filled > 0 {
            line.push(' ');
            filled += 1;
        }
        while rest.len() > width {
            lines.push(rest.drain(..width).collect());
        }
        filled += rest.len();
        line.extend(rest);
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
    fn breaks_at_blanks_and_cuts_only_what_fits_no_line() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(
            wrap("at /a/long/path now", 6),
            ["at", "/a/lon", "g/path", "now"]
        );
        assert_eq!(wrap("  ", 6), [""; 0]);
    }
}
