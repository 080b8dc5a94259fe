//! YAML that a command prints, read by a parser that the command did not write it with.

use serde_json::Value;

/// The only document of a text. The parser refuses a second document, and a key that a mapping has twice.
#[track_caller]
pub(crate) fn parse(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}
