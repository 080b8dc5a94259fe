//! The environment: variables that set a key, such as `NSDR_KUBELET__ROOT_DIR`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use figment::value::Value;

use super::environment_file;
use super::error::{Problem, unknown_key};
use super::key::Key;
use super::layer::Layer;
use super::literal;
use super::origin::Origin;
use super::service_link::is_service_link;
use super::sources::Found;

const PREFIX: &str = "NSDR_";
const BETWEEN: &str = "__";

const FOR_DRIVER: &str = "a driver cannot be set by the environment, because its id has dots and a \
                          variable's name has none; use a file in config.d";

/// The variable that sets a key.
pub(super) fn variable(key: &Key) -> String {
    format!("{PREFIX}{}", key.parts().join(BETWEEN).to_ascii_uppercase())
}

/// Reads the variables in these files. Each variable is a layer of its own, so that a value knows
/// the name of its variable.
pub(super) fn read_files(files: &[PathBuf], found: &mut Found) {
    for (name, (path, value)) in environment_file::read(files, PREFIX, found) {
        let origin = Origin::EnvironmentFile(path, name.clone());
        found.add(layer(&origin, &name, &value));
    }
}

/// Reads the variables of the process, each as a layer of its own.
pub(super) fn read(environment: &[(OsString, OsString)], found: &mut Found) {
    let mut ours: Vec<_> = environment
        .iter()
        .filter(|(name, _)| name.as_bytes().starts_with(PREFIX.as_bytes()))
        .collect();
    ours.sort();
    for (name, value) in ours {
        found.add(of_process(name, value));
    }
}

fn of_process(name: &OsStr, value: &OsStr) -> Result<Option<Layer>, Problem> {
    let origin = Origin::Variable(name.to_string_lossy().into_owned());
    match (name.to_str(), value.to_str()) {
        (Some(name), Some(value)) => layer(&origin, name, value),
        _ => Err(unusable(&origin, &value.to_string_lossy(), "not UTF-8")),
    }
}

/// The layer of a variable; `None` if Kubernetes has set the variable for a Service.
fn layer(origin: &Origin, name: &str, value: &str) -> Result<Option<Layer>, Problem> {
    if is_service_link(name, value) {
        return Ok(None);
    }
    let key = &name[PREFIX.len()..];
    // Only capitals count: otherwise two variables could set the same key.
    if key.chars().any(|c| c.is_ascii_lowercase()) {
        let reason = unknown_key(origin, &[key.to_owned()]);
        let (key, value) = (Key::of(&[key]), literal::string(value));
        return Err(Problem::of_key(origin, &key, &value, &reason));
    }
    let key = key.to_ascii_lowercase();
    let path: Vec<&str> = key.split(BETWEEN).collect();
    if path.first() == Some(&"drivers") {
        return Err(unusable(origin, value, FOR_DRIVER));
    }
    // By figment's rules, `true` is a boolean, `[a, b]` a list, and other text a string.
    let Ok(value) = value.parse::<Value>();
    Ok(Some(Layer::single(origin.clone(), &path, value)))
}

/// A variable that cannot set a key.
fn unusable(variable: &Origin, value: &str, reason: &str) -> Problem {
    let value = literal::string(value);
    Problem::new(format_args!("{variable} = {value}"), reason)
}
