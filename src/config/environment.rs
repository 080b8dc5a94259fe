//! The environment: variables that set a key, such as `NSDR_KUBELET__ROOT_DIR`.
//!
//! A variable that sets no key is a warning: Kubernetes sets `NSDR_PORT` and the like in each container, if the
//! namespace has a Service called `nsdr`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use figment::value::Value;

use super::error::Problem;
use super::key::Key;
use super::layer::Layer;
use super::literal;
use super::origin::Origin;
use super::schema::{keys_below, meant};
use super::sources::Found;

pub(super) const PREFIX: &str = "NSDR_";
const BETWEEN: &str = "__";

const FOR_DRIVER: &str = "a driver cannot be set by the environment, because its id has dots and a \
                          variable's name has none; use a file in config.d";

/// The variable that sets a key.
pub(super) fn variable(key: &Key) -> String {
    format!("{PREFIX}{}", key.parts().join(BETWEEN).to_ascii_uppercase())
}

/// Reads the variables of the process, each as a layer of its own, so that a value knows the name of its
/// variable.
pub(super) fn read(environment: &[(OsString, OsString)], found: &mut Found) {
    let mut ours: Vec<_> = environment
        .iter()
        .filter(|(name, _)| name.as_bytes().starts_with(PREFIX.as_bytes()))
        .collect();
    ours.sort();
    for (name, value) in ours {
        let origin = Origin::Variable(name.to_string_lossy().into_owned());
        match path(name) {
            None => found.warnings.push(ignored(&origin, name)),
            Some(path) => match layer(origin, &path, value) {
                Ok(layer) => found.layers.push(layer),
                Err(problem) => found.problems.push(problem),
            },
        }
    }
}

/// The key that a variable sets; none for an unknown variable. Only capitals count: otherwise two
/// variables could set the same key.
fn path(name: &OsStr) -> Option<Vec<String>> {
    let name = name.to_str()?.strip_prefix(PREFIX)?;
    if name.contains(|c: char| c.is_ascii_lowercase()) {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let path: Vec<String> = name.split(BETWEEN).map(str::to_owned).collect();
    let mut keys = keys_below(&[]).into_iter();
    keys.any(|key| key.parts() == path).then_some(path)
}

fn layer(origin: Origin, path: &[String], value: &OsStr) -> Result<Layer, Problem> {
    let Some(value) = value.to_str() else {
        let value = literal::string(&value.to_string_lossy());
        return Err(Problem::new(
            format_args!("{origin} = {value}"),
            "not UTF-8",
        ));
    };
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    // By figment's rules, `true` is a boolean, `[a, b]` a list, and other text a string.
    let Ok(value) = value.parse::<Value>();
    Ok(Layer::single(origin, &path, value))
}

/// Why a variable has no effect. Its value may be a secret of another program.
fn ignored(origin: &Origin, name: &OsStr) -> String {
    let drivers = format!("{PREFIX}DRIVERS");
    let is_of_driver = name.to_str().is_some_and(|name| {
        let rest = name.strip_prefix(&drivers);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(BETWEEN))
    });
    let why = match meant(origin, &[]) {
        _ if is_of_driver => FOR_DRIVER.to_owned(),
        Some(meant) => format!("it sets no key, did you mean {meant}?"),
        None => "it sets no key".to_owned(),
    };
    format!("{origin} is ignored: {why}")
}
