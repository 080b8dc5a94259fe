//! A layer: a file, a variable or a flag, with the values that it sets.

use figment::providers::Serialized;
use figment::value::{Dict, Value};
use figment::{Error, Figment};

use super::error::{ConfigError, Problem};
use super::origin::Origin;
use super::schema;
use super::settings::Settings;

/// So many problems are reported for a layer: a file of another format has a problem on each line.
const PROBLEMS_MAX: usize = 20;

/// The values that a file, a variable or a flag sets.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    pub(super) origin: Origin,
    pub(super) dict: Dict,
}

impl Layer {
    /// A layer with a single value.
    pub(super) fn single(origin: Origin, path: &[&str], value: Value) -> Self {
        let dict = schema::nest(path, value).into_dict().unwrap_or_default();
        Self { origin, dict }
    }

    /// Everything that is wrong in this layer. Serde stops at the first fault, so this takes the
    /// faulty value out and reads the rest again.
    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut rest = Value::from(self.dict.clone());
        while let Err(fault) = schema::read(&rest) {
            let taken = take(&mut rest, &fault.path);
            let done = taken.is_none() || problems.len() + 1 == PROBLEMS_MAX;
            problems.push(Problem::of_value(&self.origin, &fault, taken.as_ref()));
            if done {
                break;
            }
        }
        problems
    }
}

/// Takes the value at the path out of its table. An entry of a list goes with the whole list.
fn take(from: &mut Value, path: &[String]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let Value::Dict(_, dict) = from else {
        return None;
    };
    match dict.get_mut(first) {
        Some(inner @ Value::Dict(..)) if !rest.is_empty() => take(inner, rest),
        _ => dict.remove(first),
    }
}

/// The settings that all layers together make; later layers win.
pub(super) fn merge(layers: &[Layer]) -> Result<Settings, ConfigError> {
    let figment = layers.iter().fold(Figment::new(), |figment, layer| {
        figment.merge(Serialized::defaults(&layer.dict))
    });
    let unfit = |fault: Error| ConfigError(vec![Problem::of_value(&Origin::BuiltIn, &fault, None)]);
    let mut root = figment.find_value("").map_err(unfit)?;
    inherit_defaults(&mut root);
    root.deserialize().map_err(unfit)
}

/// Gives each driver's table the values of `[defaults]` that it does not set itself.
fn inherit_defaults(root: &mut Value) {
    let defaults = schema::find(root, &["defaults"]).and_then(Value::as_dict);
    let defaults = defaults.cloned().unwrap_or_default();
    if let Value::Dict(_, root) = root
        && let Some(Value::Dict(_, drivers)) = root.get_mut("drivers")
    {
        for driver in drivers.values_mut() {
            if let Value::Dict(_, table) = driver {
                let own = std::mem::replace(table, defaults.clone());
                table.extend(own);
            }
        }
    }
}

/// The values that flags set: the last layers.
#[derive(Clone, Debug, Default)]
pub struct Overrides(pub(super) Vec<Layer>);

impl Overrides {
    /// Sets a key by the flag of this name, if the flag has a value. A flag may set several keys.
    pub fn set(&mut self, flag: &str, key: &[&str], value: Option<impl Into<Value>>) {
        let origin = Origin::Flag(flag.to_owned());
        let layer = value.map(|value| Layer::single(origin, key, value.into()));
        self.0.extend(layer);
    }
}
