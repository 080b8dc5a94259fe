//! Literals: values and keys spelled as TOML, for messages and for `config`.

use figment::error::Actual;
use figment::value::{Empty, Value};

/// A message shows this many characters of a value, then `…`.
const SHOWN: usize = 200;

/// The key under which the toml crate passes a date to serde.
const DATE: &str = "$__toml_private_datetime";

/// A quoted string that TOML reads back as the same text.
pub(crate) fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' | '\n' | '\t' | '\r' => quoted.extend(c.escape_default()),
            // A terminal would obey these, and files in config.d come from many hands.
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A part of a key, quoted where TOML needs it or the caller wants it.
pub(super) fn key(part: &str, always_quoted: bool) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if always_quoted || part.is_empty() || !part.chars().all(bare) {
        string(part)
    } else {
        part.to_owned()
    }
}

/// A value of any type as a file may spell it, cut where it is long.
pub(super) fn shown(value: &Value) -> String {
    let whole = whole(value);
    match whole.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &whole[..cut]),
        None => whole,
    }
}

/// A value of any type as a file may spell it.
pub(super) fn whole(value: &Value) -> String {
    match value {
        Value::String(_, text) => string(text),
        Value::Char(_, c) => string(&c.to_string()),
        Value::Bool(_, truth) => truth.to_string(),
        Value::Num(_, number) => match number.to_actual() {
            Actual::Unsigned(n) => n.to_string(),
            Actual::Signed(n) => n.to_string(),
            Actual::Float(n) => format!("{n:?}"),
            other => other.to_string(),
        },
        Value::Empty(_, Empty::None | Empty::Unit) => "nothing".to_owned(),
        Value::Array(_, items) => {
            let items: Vec<String> = items.iter().map(whole).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Dict(_, dict) => match dict.get(DATE) {
            Some(Value::String(_, date)) => date.clone(),
            _ if dict.is_empty() => "{}".to_owned(),
            _ => {
                let pairs = dict
                    .iter()
                    .map(|(k, v)| format!("{} = {}", key(k, false), whole(v)));
                format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", "))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_strings_that_toml_reads_back() {
        assert_eq!(
            string("a\"b\\c\n\u{7f}\u{1b}ä"),
            r#""a\"b\\c\n\u007F\u001Bä""#
        );
        assert_eq!(whole(&Value::from(vec!["a", "b.*"])), r#"["a", "b.*"]"#);
    }

    #[test]
    fn cuts_a_long_value() {
        let text = shown(&Value::from("ä".repeat(500)));
        assert_eq!(text.chars().count(), SHOWN + 1);
        assert!(text.ends_with('…'));
    }
}
