//! The variables of the environment that set a key: `NSDR_KUBELET__ROOT_DIR`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use figment::value::Value;

use super::environment_file::{self, Assigned};
use super::error::Problem;
use super::layer::Layer;
use super::literal;
use super::origin::Origin;
use super::service_link::is_service_link;
use crate::os::text::printable;

const PREFIX: &str = "NSDR_";
const BETWEEN: &str = "__";

/// The variable that sets a key of `KEYS`.
pub(super) fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', BETWEEN).to_ascii_uppercase())
}

/// What the variables set.
pub(super) struct Variables {
    /// One for each, so that every value knows the name of its own.
    pub(super) layers: Vec<Layer>,
    pub(super) problems: Vec<Problem>,
    pub(super) warnings: Vec<String>,
}

/// What is in the process' environment comes after what is in files.
pub(super) fn layers(files: &[PathBuf], environment: &[(OsString, OsString)]) -> Variables {
    let Assigned {
        variables,
        mut problems,
        warnings,
    } = environment_file::assigned(files, PREFIX);
    let mut layers = Vec::new();
    let mut add = |layer: Result<Option<Layer>, Problem>| match layer {
        Ok(layer) => layers.extend(layer),
        Err(problem) => problems.push(problem),
    };
    for (name, (path, value)) in variables {
        if name.starts_with(PREFIX) {
            let origin = Origin::EnvironmentFile(path, name.clone());
            add(layer(origin, &name, &value));
        }
    }
    let mut ours: Vec<_> = environment
        .iter()
        .filter(|(name, _)| name.as_bytes().starts_with(PREFIX.as_bytes()))
        .collect();
    ours.sort();
    for (name, value) in ours {
        add(of_process(name, value));
    }
    Variables {
        layers,
        problems,
        warnings,
    }
}

fn of_process(name: &OsStr, value: &OsStr) -> Result<Option<Layer>, Problem> {
    let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else {
        return Err(Problem::VariableNotUtf8 {
            name: printable(&name.to_string_lossy()),
            value: literal::string(&value.to_string_lossy()),
        });
    };
    layer(Origin::Variable(name.to_owned()), name, value)
}

/// What a variable sets, if it is not one that Kubernetes has put there.
fn layer(origin: Origin, name: &str, value: &str) -> Result<Option<Layer>, Problem> {
    if is_service_link(name, value) {
        return Ok(None);
    }
    let key = &name[PREFIX.len()..];
    let shown = || literal::string(value);
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
            origin,
            value: shown(),
        });
    }
    Ok(Some(Layer::single(origin, &path, typed(value))))
}

/// `true`, `[a, b]` and the like have the type that they look like, as figment has it.
fn typed(text: &str) -> Value {
    match text.parse() {
        Ok(value) => value,
        Err(never) => match never {},
    }
}
