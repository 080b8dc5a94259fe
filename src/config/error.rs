//! The errors of a configuration: each names the file, variable or flag, the key and the value.

use std::fmt;

use figment::Error;
use figment::error::Kind;
use figment::value::{Dict, Value};

use super::key::Key;
use super::literal;
use super::origin::Origin;
use super::schema;

/// So many ids of nested tables are shown with their quotes.
const IDS_SHOWN: usize = 3;

/// A configuration that cannot be used, with all of its problems: first the files that could not be
/// read, then those of each layer.
#[derive(Debug, thiserror::Error)]
pub struct ConfigError(pub Vec<Problem>);

impl ConfigError {
    pub(super) fn from_problems(problems: Vec<Problem>) -> Result<(), Self> {
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Self(problems)),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return only.fmt(f);
        }
        write!(f, "the configuration has {} errors:", self.0.len())?;
        let mut problems = self.0.iter();
        problems.try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// A single problem. It is made of words, because no caller tells problems apart.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct Problem {
    /// The file, variable or flag, with the key and the value as far as they are known.
    place: String,
    reason: String,
}

impl Problem {
    pub(super) fn new(place: impl fmt::Display, reason: impl fmt::Display) -> Self {
        let (place, reason) = (place.to_string(), reason.to_string());
        Self { place, reason }
    }

    /// A key that does not exist, or that cannot have this value.
    pub(super) fn of_key(origin: &Origin, key: &Key, value: &str, reason: &str) -> Self {
        Self::new(format_args!("{origin}: {key} = {value}"), reason)
    }

    /// The fault that serde found at this value.
    pub(super) fn of_value(origin: &Origin, fault: &Error, value: Option<&Value>) -> Self {
        let ids = ids_without_quotes(&fault.path, value);
        let value = value.map_or_else(|| "nothing".to_owned(), literal::shown);
        let reason = match &fault.kind {
            _ if !ids.is_empty() => {
                let tables: Vec<String> = ids.iter().map(|id| table_of(id)).collect();
                let tables = tables.join(" and ");
                format!("TOML splits an id without quotes at its dots: write {tables}")
            }
            Kind::UnknownField(..) => unknown_key(origin, &fault.path),
            Kind::UnknownVariant(_, words) => format!("must be {}", one_of(words)),
            Kind::InvalidType(_, wanted) => match wanted.as_str() {
                "a map" => "must be a table".to_owned(),
                "a boolean" => "must be true or false".to_owned(),
                _ => format!("must be {wanted}"),
            },
            other => other.to_string(),
        };
        Self::of_key(origin, &Key::of(&fault.path), &value, &reason)
    }
}

/// The ids that `[drivers.a.b]` was meant to name: TOML reads it as a table `b` in the table of a
/// driver `a`, and no key of a driver is a table.
fn ids_without_quotes(path: &[String], value: Option<&Value>) -> Vec<String> {
    match (path, value) {
        ([drivers, id, key], Some(Value::Dict(_, table))) if drivers == "drivers" => {
            let mut ids = Vec::new();
            collect_ids(format!("{id}.{key}"), table, &mut ids);
            ids.truncate(IDS_SHOWN);
            ids
        }
        _ => Vec::new(),
    }
}

/// The innermost tables are the drivers'.
fn collect_ids(id: String, table: &Dict, ids: &mut Vec<String>) {
    let before = ids.len();
    for (key, value) in table {
        if let Value::Dict(_, inner) = value {
            collect_ids(format!("{id}.{key}"), inner, ids);
        }
    }
    if ids.len() == before {
        ids.push(id);
    }
}

fn table_of(id: &str) -> String {
    format!("[{}]", Key::of(&["drivers", id]))
}

fn unknown_key(origin: &Origin, path: &[String]) -> String {
    let hint = schema::meant(origin, path).map(|meant| format!(", did you mean {meant}?"));
    format!("unknown key{}", hint.unwrap_or_default())
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| literal::string(word)).collect();
    match quoted.split_last() {
        Some((last, others @ [_, ..])) => format!("{} or {last}", others.join(", ")),
        _ => quoted.concat(),
    }
}
