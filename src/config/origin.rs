//! Where a value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use figment::Figment;
use figment::value::{Dict, Value};

use super::error::Problem;
use super::key::Key;
use super::layer::Layer;
use crate::os::text::printable;

/// One place that values come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The program itself.
    BuiltIn,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A variable in a file that the unit takes its environment from.
    EnvironmentFile(PathBuf, String),
    /// A flag on the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in default"),
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) => write!(f, "environment variable {}", printable(name)),
            Self::EnvironmentFile(path, name) => write!(f, "{} ({name})", path.display()),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// The origin of every key that any layer sets, and of every driver's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Origins(BTreeMap<Key, Origin>);

impl Origins {
    /// Reads figment's tags. They are walked part by part: figment's own lookup splits a path
    /// at its dots, and so would split a driver's id.
    pub(super) fn of(figment: &Figment, layers: &[Layer]) -> Result<Self, Problem> {
        let by_name: BTreeMap<String, &Origin> = layers
            .iter()
            .map(|layer| (layer.origin().to_string(), layer.origin()))
            .collect();
        let origin = |value: &Value| {
            let metadata = figment.get_metadata(value.tag());
            metadata.and_then(|metadata| by_name.get(metadata.name.as_ref()).copied())
        };
        let mut origins = BTreeMap::new();
        if let Value::Dict(_, dict) = figment.find_value("")? {
            walk(&dict, &mut Vec::new(), &mut |path, value| {
                if let Some(origin) = origin(value) {
                    origins.insert(Key::from(path.to_vec()), origin.clone());
                }
            });
        }
        Ok(Self(origins))
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Origin> {
        self.0.get(key)
    }

    /// The origin of a key; what no layer sets is built in.
    pub(super) fn of_key(&self, key: &Key) -> Origin {
        self.get(key).cloned().unwrap_or(Origin::BuiltIn)
    }
}

fn walk(dict: &Dict, path: &mut Vec<String>, see: &mut impl FnMut(&[String], &Value)) {
    for (key, value) in dict {
        path.push(key.clone());
        see(path, value);
        if let Value::Dict(_, inner) = value {
            walk(inner, path, see);
        }
        path.pop();
    }
}
