//! The configuration: its keys with their defaults and words, its variables, and the configuration of a release.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use bed::registrar::{chosen, clear_environment};
use bed::{stderr, stdout};

use crate::PROGRAM;
use crate::list::keeps;
use crate::release::Release;

/// The driver of the lists.
const DRIVER: &str = "drivers.\"ID\"";

fn program(arguments: &[&str]) -> Command {
    let mut command = Command::new(chosen(PROGRAM));
    clear_environment(&mut command).args(arguments);
    command
}

/// A key as `config` prints it: its value as TOML, none if it is not known, and the comment behind it.
struct Effective {
    value: Option<String>,
    source: String,
}

/// What `config` says about this file.
fn config(file: &Path, change: impl FnOnce(&mut Command)) -> BTreeMap<String, Effective> {
    let mut command = program(&["config", "--config", file.to_str().unwrap()]);
    change(&mut command);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    effective(&stdout(&output))
}

/// The keys in the output of `config`.
fn effective(text: &str) -> BTreeMap<String, Effective> {
    let parsed = text.lines().map(|line| {
        let (entry, source) = line.rsplit_once("  # ").unwrap();
        let (key, value) = entry.split_once(" =").unwrap();
        let value = value.trim();
        let effective = Effective {
            value: (!value.is_empty()).then(|| value.to_owned()),
            source: source.to_owned(),
        };
        (key.trim_start_matches('#').to_owned(), effective)
    });
    parsed.collect()
}

/// A configuration file with this text.
fn file(directory: &Path, text: &str) -> std::path::PathBuf {
    let path = directory.join("config.toml");
    fs::write(&path, text).unwrap();
    path
}

/// The words that a key allows, if it allows no others. Such a key refuses any other word and lists its own.
fn words(directory: &Path, key: &str) -> Vec<String> {
    let file = file(directory, &format!("{key} = \"?\"\n"));
    let output: Output = program(&["config", "--config", file.to_str().unwrap()])
        .output()
        .unwrap();
    let said = stderr(&output);
    let list = said.split(": must be \"").nth(1);
    let words = list.map(|list| list.split('"').step_by(2).map(str::to_owned));
    words.into_iter().flatten().collect()
}

#[test]
fn every_promised_key_has_its_default_and_its_words() {
    let directory = tempfile::tempdir().unwrap();
    let defaults = config(
        &file(directory.path(), &format!("[{DRIVER}]\n")),
        |_command| {},
    );
    let lines = defaults.into_iter().flat_map(|(key, effective)| {
        let default = effective.value.unwrap_or(effective.source);
        let words = words(directory.path(), &key);
        let mut lines = vec![format!("{key} = {default}")];
        lines.extend(words.iter().map(|word| format!("{key} allows {word}")));
        lines
    });
    keeps("key", lines.collect::<Vec<_>>());
}

/// The name of a key's variable; none for a key of a driver.
fn variable(key: &str) -> Option<String> {
    let is_of_driver = key.starts_with("drivers.");
    (!is_of_driver).then(|| format!("NSDR_{}", key.replace('.', "__").to_uppercase()))
}

#[test]
fn every_key_outside_of_drivers_has_its_variable() {
    let directory = tempfile::tempdir().unwrap();
    let file = file(directory.path(), "");
    let defaults = config(&file, |_command| {});
    let named = config(&file, |command| {
        for (key, effective) in &defaults {
            let value = effective.value.as_deref().unwrap();
            command.env(variable(key).unwrap(), value.trim_matches('"'));
        }
    });
    let variables = named.values().filter_map(|effective| {
        let name = effective
            .source
            .strip_prefix("from environment variable ")?;
        Some(name.to_owned())
    });
    let variables: Vec<String> = variables.collect();
    assert_eq!(variables.len(), defaults.len());
    keeps("variable", variables);
}

/// `config` of a configuration that sets every key, as the release printed it, and as the tree prints it.
#[test]
fn the_configuration_of_a_release_is_read_with_the_same_values() {
    for release in Release::recorded() {
        let path = release.directory.join("config.toml");
        let now = config(&path, |_command| {});
        for (key, then) in effective(&release.text("config.effective")) {
            let now = now.get(&key).and_then(|now| now.value.as_deref());
            assert_eq!(now, then.value.as_deref(), "{key}: {}", path.display());
            assert!(
                then.source.starts_with("from "),
                "{key} is not set in the file"
            );
        }
        let output = program(&["check", "--config", path.to_str().unwrap()]).output();
        assert!(output.unwrap().status.success());
    }
}

/// The output of `config` for this file, without the path of the file.
pub(crate) fn recorded(path: &Path) -> String {
    let output = program(&["config", "--config", path.to_str().unwrap()]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    stdout(&output).replace(path.to_str().unwrap(), "config.toml")
}
