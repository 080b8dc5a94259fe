//! The errors of a configuration: each names the file, variable or flag, the key and the value.

use std::fmt;
use std::path::PathBuf;

use figment::error::Kind;
use figment::value::Value;

use super::file::FileFault;
use super::key::Key;
use super::literal;
use super::origin::Origin;
use super::schema::{self, Fault};

/// A configuration that cannot be used, with all of its problems.
#[derive(Debug, thiserror::Error)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn of(problem: Problem) -> Self {
        let problems = vec![problem];
        Self { problems }
    }

    pub(super) fn from_problems(problems: Vec<Problem>) -> Result<(), Self> {
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Self { problems }),
        }
    }

    /// The problems: first the files that could not be read, then those of each layer.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.problems.as_slice() {
            return only.fmt(f);
        }
        f.write_str("the configuration cannot be used")?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

/// A single problem.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A file or directory that cannot be used.
    #[error("{}: {fault}", path.display())]
    BadFile {
        /// The file or directory.
        path: PathBuf,
        /// Why it cannot be used.
        fault: FileFault,
    },
    /// A variable that cannot set a key.
    #[error("{origin} = {value}: {reason}")]
    BadVariable {
        /// The variable.
        origin: Origin,
        /// Its value, as far as it can be shown.
        value: String,
        /// Why it cannot set a key.
        reason: &'static str,
    },
    /// A key that does not exist, or a value that its key cannot have.
    #[error("{origin}: {key} = {value}: {reason}")]
    BadValue {
        /// The layer that sets it.
        origin: Origin,
        /// The key.
        key: Key,
        /// The value.
        value: String,
        /// Why the key cannot have it.
        reason: String,
    },
}

impl Problem {
    /// The fault that serde found at this value.
    pub(super) fn of_value(origin: &Origin, fault: Fault, value: Option<&Value>) -> Self {
        let value = value.map_or_else(|| "nothing".to_owned(), literal::shown);
        let reason = match fault.kind {
            Kind::UnknownField(..) => return Self::unknown_key(origin, fault.path, value),
            Kind::UnknownVariant(_, words) => format!("must be {}", one_of(words)),
            Kind::InvalidType(_, wanted) => match wanted.as_str() {
                "a map" => "must be a table".to_owned(),
                "a boolean" => "must be true or false".to_owned(),
                _ => format!("must be {wanted}"),
            },
            other => other.to_string(),
        };
        Self::BadValue {
            origin: origin.clone(),
            key: Key::from(fault.path),
            value,
            reason,
        }
    }

    pub(super) fn unknown_key(origin: &Origin, path: Vec<String>, value: String) -> Self {
        let meant = schema::meant(origin, &path);
        let hint = meant.map(|meant| format!(", did you mean {meant}?"));
        Self::BadValue {
            origin: origin.clone(),
            key: Key::from(path),
            value,
            reason: format!("unknown key{}", hint.unwrap_or_default()),
        }
    }
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| literal::string(word)).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
