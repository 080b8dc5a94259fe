//! The provenance of each effective value, and the effective configuration as text.

use std::fmt;

use figment::value::Value;

use super::Loaded;
use super::key::Key;
use super::literal;
use super::origin::Origin;
use super::schema::{find, keys_below};
use crate::os::columns::{columns, padded};

/// All comments start in the same column, except after a line that is longer than this.
const COLUMN_MAX: usize = 76;

/// How a value was determined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Set by this layer.
    Set(Origin),
    /// A driver's value that this layer sets in `[defaults]`.
    Defaults(Origin),
    /// `"auto"` is set there, and the daemon found this value for this reason.
    Found(Origin, String),
    /// Follows from other keys.
    Derived(&'static str),
    /// Not known until the driver answers.
    Learned,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(Origin::BuiltIn) | Self::Defaults(Origin::BuiltIn) => Origin::BuiltIn.fmt(f),
            Self::Set(origin) => write!(f, "from {origin}"),
            Self::Defaults(origin) => write!(f, "from [defaults], {origin}"),
            Self::Found(origin, why) => write!(f, "found for \"auto\" from {origin}: {why}"),
            Self::Derived(from) => write!(f, "derived from {from}"),
            Self::Learned => f.write_str("learned from the driver"),
        }
    }
}

/// An effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedKey {
    /// Its key.
    pub key: Key,
    /// The value as TOML; `None` while it is not known.
    pub value: Option<String>,
    /// How it was determined.
    pub provenance: Provenance,
}

impl Loaded {
    /// Every effective value, drivers last.
    pub fn provenance(&self) -> Vec<ExplainedKey> {
        let values = Value::serialize(&self.settings)
            .expect("settings are strings, lists and tables, and figment takes all of these");
        let drivers = self.settings.drivers.keys();
        let of_drivers = drivers.flat_map(|id| keys_below(&["drivers", id]));
        let keys = keys_below(&[]).into_iter().chain(of_drivers);
        let is_known = |value: &&Value| !matches!(value, Value::Empty(..));
        let value = |key: &Key| find(&values, key.parts()).filter(is_known);
        let explained = keys.map(|key| ExplainedKey {
            value: value(&key).map(literal::whole),
            provenance: self.provenance_of(&key),
            key,
        });
        explained.collect()
    }

    /// The output of `config`. It is TOML, and as a configuration file it gives the same settings.
    pub fn explain(&self) -> String {
        let entries = self.provenance();
        let line = |entry: &ExplainedKey| match &entry.value {
            Some(value) => format!("{} = {value}", entry.key),
            None => format!("#{} =", entry.key),
        };
        let widths = entries.iter().map(|entry| columns(&line(entry)));
        let column = widths.filter(|width| *width <= COLUMN_MAX).max();
        let commented = |entry: &ExplainedKey| {
            let line = padded(&line(entry), column.unwrap_or(0));
            format!("{line}  # {}\n", entry.provenance)
        };
        entries.iter().map(commented).collect()
    }

    fn provenance_of(&self, key: &Key) -> Provenance {
        let parts: Vec<&str> = key.parts().iter().map(String::as_str).collect();
        match (self.origins.get(key), parts.as_slice(), &self.root_found) {
            (Some(origin), ["kubelet", "root_dir"], Some(why)) => {
                Provenance::Found(origin.clone(), why.clone())
            }
            (Some(origin), ..) => Provenance::Set(origin.clone()),
            (None, ["kubelet", "plugins_registry"], _) => Provenance::Derived("kubelet.root_dir"),
            (None, ["kubelet", "sees_registry_as"], _) => Provenance::Derived("registry_dir"),
            (None, ["drivers", _, "csi_socket"], _) => {
                Provenance::Derived("plugins_dir and the id")
            }
            (None, ["drivers", _, "endpoint"], _) => Provenance::Derived("csi_socket"),
            (None, ["drivers", _, "name"], _) => Provenance::Learned,
            (None, ["drivers", _, key], _) => {
                let default = self.origins.get(&Key::of(&["defaults", key]));
                Provenance::Defaults(default.cloned().unwrap_or(Origin::BuiltIn))
            }
            (None, ..) => Provenance::Set(Origin::BuiltIn),
        }
    }
}
