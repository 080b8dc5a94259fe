//! What an unknown key was probably meant to be.

use super::environment::variable;
use super::key::{KEYS, Key};
use super::origin::Origin;

/// Jaro-Winkler similarity from which on two words are taken for one with a slip in it.
const CLOSE: f64 = 0.85;

/// The key or variable that was meant, where one is close enough to say so.
pub(super) fn meant(origin: &Origin, path: &[String], siblings: &[&str]) -> Option<String> {
    if let Origin::Variable(name) | Origin::EnvironmentFile(_, name) = origin {
        let variables: Vec<String> = KEYS.iter().map(|key| variable(key)).collect();
        let upper = name.to_ascii_uppercase();
        return closest(&upper, variables.iter().map(String::as_str)).map(str::to_owned);
    }
    let (last, table) = path.split_last()?;
    if let Some(sibling) = closest(last, siblings.iter().copied()) {
        let parts = table.iter().cloned().chain([sibling.to_owned()]);
        return Some(Key::from(parts.collect::<Vec<_>>()).to_string());
    }
    // TOML's own trap: a key below the wrong [table].
    let elsewhere = KEYS.iter().find(|key| key.rsplit('.').next() == Some(last));
    elsewhere.map(|key| (*key).to_owned())
}

fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|candidate| (strsim::jaro_winkler(word, candidate), candidate))
        .filter(|(similarity, _)| *similarity >= CLOSE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
