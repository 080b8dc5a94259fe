//! One layer of the configuration: a file, a variable or a flag, with what it sets.

use figment::value::{Dict, Map, Value};
use figment::{Metadata, Profile, Provider};

use super::error::Problem;
use super::origin::Origin;
use super::tree::Tree;

/// So many problems are told of one layer; a file full of rubbish has one for each line.
const PROBLEMS_MAX: usize = 20;

/// What one place sets.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    origin: Origin,
    dict: Dict,
}

impl Layer {
    pub(super) fn new(origin: Origin, dict: Dict) -> Self {
        Self { origin, dict }
    }

    /// A layer with a single value.
    pub(super) fn single(origin: Origin, path: &[&str], value: Value) -> Self {
        let nested = path.iter().rev().fold(value, |inner, key| {
            Value::from(Dict::from([((*key).to_owned(), inner)]))
        });
        Self::new(origin, nested.into_dict().unwrap_or_default())
    }

    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// All that is wrong in this layer. Serde stops at the first fault, so what is faulty is
    /// taken out and the rest is read again.
    pub(super) fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut rest = Value::from(self.dict.clone());
        while let Err(error) = rest.deserialize::<Tree>() {
            let taken = take(&mut rest, &error.path);
            let done = taken.is_none() || problems.len() + 1 == PROBLEMS_MAX;
            problems.push(Problem::of_value(&self.origin, error, taken.as_ref()));
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

impl Provider for Layer {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.origin.to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Map::from([(Profile::Default, self.dict.clone())]))
    }
}

/// What flags set: the last layer.
#[derive(Clone, Debug, Default)]
pub struct Overrides(Vec<Layer>);

impl Overrides {
    /// Sets one key by the flag of this name. A flag may set several keys.
    pub fn set(&mut self, flag: &str, key: &[&str], value: impl Into<Value>) {
        let origin = Origin::Flag(flag.to_owned());
        self.0.push(Layer::single(origin, key, value.into()));
    }

    pub(super) fn layers(&self) -> &[Layer] {
        &self.0
    }
}
