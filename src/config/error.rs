//! What can be wrong with a configuration, said so that an operator can mend it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use figment::error::{Actual, Kind};
use figment::value::Value;

use super::file::SIZE_MAX;
use super::key::Key;
use super::literal;
use super::origin::Origin;
use super::schema;

/// Serde's name for a list.
const A_LIST: &str = "a sequence";

/// A configuration that cannot be used, with everything that was found wrong in it.
#[derive(Debug, thiserror::Error)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn from_problems(problems: Vec<Problem>) -> Result<(), Self> {
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Self { problems }),
        }
    }

    /// What is wrong: first what could not be read at all, then layer by layer.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
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

/// One thing that is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// A file or directory that is missing or cannot be read.
    #[error("{}: cannot read the configuration: {source}", path.display())]
    Unreadable {
        /// Where it should be.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that is no configuration by its size.
    #[error("{}: larger than {SIZE_MAX} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A file that is not text.
    #[error("{}: line {line}, column {column}: not UTF-8", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Of the first bad byte, from one.
        line: usize,
        /// Of the first bad byte, from one.
        column: usize,
    },
    /// A file that is not TOML.
    #[error("{}: line {line}, column {column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// From one.
        line: usize,
        /// From one.
        column: usize,
        /// The parser's words.
        message: String,
    },
    /// A variable with our prefix that is not text.
    #[error("environment variable {name} = {value}: not UTF-8")]
    VariableNotUtf8 {
        /// The variable.
        name: String,
        /// What it holds, as far as it can be shown.
        value: String,
    },
    /// A variable for a driver.
    #[error(
        "{origin} = {value}: a driver cannot be set by the environment, \
         because its id has dots and a variable's name has none; use a file in config.d"
    )]
    VariableForDriver {
        /// The variable.
        origin: Origin,
        /// What it holds.
        value: String,
    },
    /// A key that nobody knows.
    #[error("{origin}: {key} = {value}: unknown key{}", suggestion(meant.as_deref()))]
    UnknownKey {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: Key,
        /// Its value.
        value: String,
        /// What was probably meant.
        meant: Option<String>,
    },
    /// A value that does not do for its key.
    #[error("{origin}: {key} = {value}: {reason}")]
    BadValue {
        /// Where it stands.
        origin: Origin,
        /// The key.
        key: Key,
        /// The value.
        value: String,
        /// Why it does not do.
        reason: String,
    },
    /// Layers that are right one by one, but not together.
    #[error("cannot merge the layers of the configuration: {0}")]
    Merge(Box<figment::Error>),
}

impl From<figment::Error> for Problem {
    fn from(error: figment::Error) -> Self {
        Self::Merge(Box::new(error))
    }
}

impl Problem {
    /// The fault that serde found at the value that `error` points to.
    pub(super) fn of_value(
        origin: &Origin,
        mut error: figment::Error,
        value: Option<&Value>,
    ) -> Self {
        // The whole list is shown, so it is the list's key that has to stand before it.
        if is_in_list(&error, value) {
            error.path.pop();
            error.kind = Kind::InvalidType(Actual::Seq, A_LIST.to_owned());
        }
        let value = value.map_or_else(|| "nothing".to_owned(), literal::shown);
        let reason = match error.kind {
            Kind::UnknownField(_, siblings) => {
                return Self::unknown_key(origin, error.path, siblings, value);
            }
            Kind::UnknownVariant(_, words) => format!("must be {}", one_of(words)),
            // Serde's words, where they are not an operator's.
            Kind::InvalidType(_, wanted) if wanted == A_LIST => {
                "must be a list of strings".to_owned()
            }
            Kind::InvalidType(_, wanted) if wanted == "a boolean" => {
                "must be true or false".to_owned()
            }
            Kind::InvalidType(_, wanted) => format!("must be {wanted}"),
            other => other.to_string(),
        };
        Self::BadValue {
            origin: origin.clone(),
            key: Key::from(error.path),
            value,
            reason,
        }
    }

    pub(super) fn unknown_key(
        origin: &Origin,
        path: Vec<String>,
        siblings: &[&str],
        value: String,
    ) -> Self {
        let meant = schema::meant(origin, &path, siblings);
        Self::UnknownKey {
            origin: origin.clone(),
            key: Key::from(path),
            value,
            meant,
        }
    }

    pub(super) fn is_missing_file(&self) -> bool {
        matches!(self, Self::Unreadable { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Whether the fault is an entry of a list of strings: figment's path ends with its number.
fn is_in_list(error: &figment::Error, value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Array(..)))
        && matches!(&error.kind, Kind::InvalidType(_, wanted) if wanted == "a string")
        && error
            .path
            .last()
            .is_some_and(|part| part.parse::<usize>().is_ok())
}

fn suggestion(meant: Option<&str>) -> String {
    meant.map_or_else(String::new, |meant| format!(", did you mean {meant}?"))
}

fn one_of(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| literal::string(word)).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}
