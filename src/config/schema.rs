//! The schema: which keys exist. Serde knows them from the fields of `Settings`, and this file asks
//! it.

use figment::Error;
use figment::error::{Actual, Kind};
use figment::value::{Dict, Value};

use super::environment::{PREFIX, variable};
use super::key::Key;
use super::origin::Origin;
use super::settings::{OWN_KEYS, Settings};

/// Jaro-Winkler similarity from which on an unknown key counts as a misspelling of this key.
const CLOSE: f64 = 0.85;

/// Reads settings, and refuses what serde's derive would accept by mistake.
pub(super) fn read(root: &Value) -> Result<Settings, Box<Error>> {
    let tables = |path: &[&str]| find(root, path).and_then(Value::as_dict);
    for (name, value) in tables(&[]).into_iter().flatten() {
        refuse_list(&[name], value)?;
    }
    for (id, value) in tables(&["drivers"]).into_iter().flatten() {
        let path = ["drivers", id];
        check_id(id).map_err(|why| fault(&path, why))?;
        refuse_list(&path, value)?;
    }
    for key in OWN_KEYS {
        if find(root, &["defaults", key]).is_some() {
            let unknown = Kind::UnknownField(key.to_owned(), &[]);
            return Err(fault(&["defaults", key], unknown));
        }
    }
    Ok(root.deserialize()?)
}

/// Serde's derive takes a list for a table, with the values in the order of the fields.
fn refuse_list(path: &[&str], value: &Value) -> Result<(), Box<Error>> {
    match value {
        Value::Array(..) if !keys_of(path).is_empty() => {
            let wanted = Kind::InvalidType(Actual::Seq, "a table".to_owned());
            Err(fault(path, wanted))
        }
        _ => Ok(()),
    }
}

fn check_id(id: &str) -> Result<(), &'static str> {
    match id {
        "" => Err("a driver's id must not be empty"),
        "." | ".." => Err("a driver's id must not be `.` or `..`, because it names a directory"),
        _ if id.contains(['/', '\0']) => Err(
            "a driver's id must not contain `/` or a NUL character, because it names a directory",
        ),
        _ => Ok(()),
    }
}

/// What is wrong with the value at a path.
fn fault(path: &[&str], what: impl Into<Error>) -> Box<Error> {
    let mut fault = Box::new(what.into());
    fault.path = path.iter().map(|part| (*part).to_owned()).collect();
    fault
}

/// The value at a path. Figment's own search splits a driver's id at its dots.
pub(super) fn find<'a>(root: &'a Value, path: &[impl AsRef<str>]) -> Option<&'a Value> {
    path.iter()
        .try_fold(root, |value, part| value.as_dict()?.get(part.as_ref()))
}

/// A value inside a table for each part of the path.
pub(super) fn nest(path: &[&str], value: Value) -> Value {
    path.iter().rev().fold(value, |inner, key| {
        Value::from(Dict::from([((*key).to_owned(), inner)]))
    })
}

/// The keys of a table in the order of the fields, none if it is not a table. Serde lists them when
/// it meets a key that it does not know.
fn keys_of(table: &[&str]) -> Vec<&'static str> {
    let unknown = nest(table, nest(&[""], Value::from(0)));
    let found = unknown.deserialize::<Settings>().map_err(|e| e.kind);
    let Err(Kind::UnknownField(_, keys)) = found else {
        return Vec::new();
    };
    let exists = |key: &&str| table != ["defaults"] || !OWN_KEYS.contains(key);
    keys.iter().copied().filter(exists).collect()
}

/// Every key in a table and the tables below it, except for the table of a driver, which is found
/// only by its id.
pub(super) fn keys_below(table: &[&str]) -> Vec<Key> {
    let names = keys_of(table).into_iter().filter(|name| *name != "drivers");
    let keys = names.flat_map(|name| {
        let path = [table, &[name]].concat();
        match keys_below(&path) {
            none if none.is_empty() => vec![Key::of(&path)],
            keys => keys,
        }
    });
    keys.collect()
}

/// The key or variable that was probably meant by an unknown name.
pub(super) fn meant(origin: &Origin, path: &[String]) -> Option<String> {
    let general = keys_below(&[]);
    if let Origin::Variable(name) = origin {
        // All variables begin with the prefix, which would make each similar to any other.
        let name = name.to_ascii_uppercase();
        let bare = name.strip_prefix(PREFIX).unwrap_or(&name);
        let known = general
            .iter()
            .map(|key| variable(key)[PREFIX.len()..].to_owned());
        return closest(bare, known).map(|meant| format!("{PREFIX}{meant}"));
    }
    let (last, table) = path.split_last()?;
    let parts: Vec<&str> = table.iter().map(String::as_str).collect();
    let siblings = keys_of(&parts).into_iter().map(str::to_owned);
    if let Some(sibling) = closest(last, siblings) {
        let key = [table, &[sibling]].concat();
        return Some(Key::of(&key).to_string());
    }
    // An easy mistake in TOML: a key below the wrong [table].
    let elsewhere = general.iter().find(|key| key.parts().last() == Some(last));
    elsewhere.map(Key::to_string)
}

fn closest(word: &str, known: impl Iterator<Item = String>) -> Option<String> {
    known
        .map(|candidate| (strsim::jaro_winkler(word, &candidate), candidate))
        .filter(|(similarity, _)| *similarity >= CLOSE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
