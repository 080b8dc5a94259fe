//! The origin of a value: the program, a file, a variable or a flag.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use figment::value::{Dict, Value};

use super::key::Key;
use super::layer::Layer;
use crate::os::text::printable;

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    BuiltIn,
    /// A configuration file.
    File(PathBuf),
    /// An environment variable.
    Variable(String),
    /// A flag on the command line.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in default"),
            Self::File(path) => path.display().fmt(f),
            Self::Variable(name) => write!(f, "environment variable {}", printable(name)),
            Self::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// The origin of every key and every driver's table that a layer sets.
pub(super) type Origins = BTreeMap<Key, Origin>;

/// The last layer that sets a key is its origin.
pub(super) fn origins(layers: &[Layer]) -> Origins {
    let mut origins = Origins::new();
    for layer in layers {
        record(&mut origins, &layer.origin, &layer.dict, &mut Vec::new());
    }
    origins
}

fn record(origins: &mut Origins, origin: &Origin, dict: &Dict, path: &mut Vec<String>) {
    for (key, value) in dict {
        path.push(key.clone());
        origins.insert(Key::of(path), origin.clone());
        if let Value::Dict(_, inner) = value {
            record(origins, origin, inner, path);
        }
        path.pop();
    }
}
