//! Shell-style wildcards: `*`, `?`, `[abc]`, `[a-z]`, `[!abc]`.
//!
//! A driver id has no `/`, so a shell's matching has no more than this. The crates for it also
//! bring `**` and braces, and refuse a `[` without its `]`.

/// Whether all of `text` matches. A `[` without its `]` is a plain character.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut p, mut t) = (0, 0);
    // The position after the last star, and the end of the text that this star matches so far. Only
    // the last star is tried again, so the time is at most the product of the lengths.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if let Some(width) = one(&pattern[p..], text[t]) {
            p += width;
            t += 1;
        } else if let Some((after, end)) = star {
            star = Some((after, end + 1));
            (p, t) = (after, end + 1);
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// The length of the pattern's first part, if that part matches this character.
fn one(pattern: &[char], c: char) -> Option<usize> {
    match pattern.first()? {
        '?' => Some(1),
        '[' => match bracket(pattern) {
            Some((set, negated, width)) => (contains(set, c) != negated).then_some(width),
            None => (c == '[').then_some(1),
        },
        literal => (*literal == c).then_some(1),
    }
}

/// The set between `[` and `]`, whether it is negated, and the length of all this. A `]` that comes
/// first belongs to the set.
fn bracket(pattern: &[char]) -> Option<(&[char], bool, usize)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let start = if negated { 2 } else { 1 };
    let end = (start + 1..pattern.len()).find(|at| pattern[*at] == ']')?;
    Some((&pattern[start..end], negated, end + 1))
}

fn contains(set: &[char], c: char) -> bool {
    let mut rest = set;
    while let [first, after @ ..] = rest {
        // A single character is a range of its own.
        let (last, after) = match after {
            ['-', last, after @ ..] => (last, after),
            _ => (first, after),
        };
        if (*first..=*last).contains(&c) {
            return true;
        }
        rest = after;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_as_a_shell_does() {
        for (pattern, yes, no) in [
            ("nfs", &["nfs"][..], &["nfs2", "xnfs", ""][..]),
            ("scratch.*", &["scratch.", "scratch.a.b"], &["scratch", "a"]),
            ("*", &["", "a", "a.b"], &[]),
            ("a*b*c", &["abc", "a.b.b.c"], &["ab", "abcd", "cba"]),
            ("v?.io", &["v1.io", "vä.io"], &["v.io", "v12.io"]),
            ("[ab]x", &["ax", "bx"], &["cx", "x", "[ab]x"]),
            ("[a-c1]", &["a", "b", "c", "1"], &["d", "-"]),
            ("[!a-c]*", &["d", "dx"], &["a", "", "bx"]),
            ("[^a]", &["b"], &["a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[ab", &["[ab"], &["a", "b"]),
        ] {
            for text in yes {
                assert!(matches(pattern, text), "{pattern} {text}");
            }
            for text in no {
                assert!(!matches(pattern, text), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn many_stars_do_not_take_for_ever() {
        assert!(!matches(
            &format!("{}c", "a*".repeat(40)),
            &"a".repeat(2000)
        ));
    }
}
