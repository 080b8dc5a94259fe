//! The variables of the environment that set a key: `NSDR_KUBELET__ROOT_DIR`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use figment::value::Value;

use super::error::Problem;
use super::layer::Layer;
use super::literal;
use super::origin::Origin;
use crate::printable::printable;

const PREFIX: &str = "NSDR_";
const BETWEEN: &str = "__";

/// The variable that sets a key of `KEYS`.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', BETWEEN).to_ascii_uppercase())
}

/// One layer for each variable, so that every value knows the name of its own.
pub(super) fn layers(environment: &[(OsString, OsString)]) -> (Vec<Layer>, Vec<Problem>) {
    let mut ours: Vec<_> = environment
        .iter()
        .filter(|(name, _)| name.as_bytes().starts_with(PREFIX.as_bytes()))
        .collect();
    ours.sort();
    let (mut layers, mut problems) = (Vec::new(), Vec::new());
    for (name, value) in ours {
        match layer(name, value) {
            Ok(layer) => layers.push(layer),
            Err(problem) => problems.push(problem),
        }
    }
    (layers, problems)
}

fn layer(name: &OsStr, value: &OsStr) -> Result<Layer, Problem> {
    let shown = || literal::string(&value.to_string_lossy());
    let (Some(utf8_name), Some(text)) = (name.to_str(), value.to_str()) else {
        let name = printable(&name.to_string_lossy());
        return Err(Problem::VariableNotUtf8 {
            name,
            value: shown(),
        });
    };
    let key = &utf8_name[PREFIX.len()..];
    let origin = Origin::Variable(utf8_name.to_owned());
    // Lower case is no second spelling: two variables would set one key.
    if key.chars().any(|c| c.is_ascii_lowercase()) {
        return Err(Problem::unknown_key(
            &origin,
            vec![key.to_owned()],
            &[],
            shown(),
        ));
    }
    let key = key.to_ascii_lowercase();
    let path: Vec<&str> = key.split(BETWEEN).collect();
    if path.first() == Some(&"drivers") {
        return Err(Problem::VariableForDriver {
            name: printable(utf8_name),
            value: shown(),
        });
    }
    Ok(Layer::single(origin, &path, typed(text)))
}

/// `true`, `[a, b]` and the like have the type that they look like, as figment has it.
fn typed(text: &str) -> Value {
    match text.parse() {
        Ok(value) => value,
        Err(never) => match never {},
    }
}
