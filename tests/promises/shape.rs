//! The shape of JSON: its fields with their types.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// The types of each field, in all the values that were seen.
pub(crate) struct Shape {
    /// The objects whose keys are names of something else.
    maps: &'static [&'static str],
    fields: BTreeMap<String, BTreeSet<&'static str>>,
}

impl Shape {
    pub(crate) fn of(maps: &'static [&'static str], values: &[Value]) -> Shape {
        let fields = BTreeMap::new();
        let mut shape = Shape { maps, fields };
        values.iter().for_each(|value| shape.see("", value));
        shape
    }

    fn see(&mut self, path: &str, value: &Value) {
        let below = |name: &str| match path {
            "" => name.to_owned(),
            _ => format!("{path}.{name}"),
        };
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(list) => {
                let path = format!("{path}[]");
                list.iter().for_each(|value| self.see(&path, value));
                "list"
            }
            Value::Object(map) => {
                let is_map = self.maps.contains(&path);
                for (name, value) in map {
                    self.see(&below(if is_map { "KEY" } else { name }), value);
                }
                "object"
            }
        };
        self.fields.entry(path.to_owned()).or_default().insert(kind);
    }

    /// A line for each field.
    pub(crate) fn lines(self) -> Vec<String> {
        let fields = self.fields.into_iter().filter(|(path, _)| !path.is_empty());
        let lines = fields.map(|(path, kinds)| {
            // "null" last, as people say it.
            let (null, kinds): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| **kind == "null");
            let kinds: Vec<&str> = kinds.into_iter().chain(null).copied().collect();
            format!("{path}: {}", kinds.join(" or "))
        });
        lines.collect()
    }
}
