//! The shipped file tells the truth about the code.

use std::collections::BTreeSet;

use figment::error::Kind;
use figment::value::{Dict, Value};

use super::*;
use crate::config::Settings;
use crate::config::key::KEYS;
use crate::config::provenance::of_driver;
use crate::config::tree::Tree;

const SHIPPED: &str = include_str!("../../../config/config.toml");
const EXAMPLE: &str = "local.csi.paas.cucloud";

/// Prose has a space after its `#`, a default has none.
fn uncommented() -> String {
    let uncomment = |line: &'static str| match line.strip_prefix('#') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => rest,
        _ => line,
    };
    SHIPPED
        .lines()
        .map(|line| format!("{}\n", uncomment(line)))
        .collect()
}

fn with_discovery() -> Settings {
    let mut settings = Settings::default();
    assert!(!settings.discovery.enabled);
    settings.discovery.enabled = true;
    settings
}

/// The keys that serde knows in a table: an unknown one makes it list them.
fn known(path: &[&str]) -> &'static [&'static str] {
    let probe = path.iter().rev().fold(
        Value::from(Dict::from([("?".to_owned(), 1.into())])),
        |v, k| Value::from(Dict::from([((*k).to_owned(), v)])),
    );
    match probe.deserialize::<Tree>().unwrap_err().kind {
        Kind::UnknownField(_, fields) => fields,
        other => panic!("{other}"),
    }
}

fn known_driver_keys() -> BTreeSet<&'static str> {
    known(&["drivers", EXAMPLE]).iter().copied().collect()
}

#[test]
fn the_file_as_shipped_is_the_defaults_with_discovery_on() {
    assert_eq!(Bench::with(SHIPPED).load().settings, with_discovery());
}

#[test]
fn every_commented_value_is_the_built_in_default() {
    let mut settings = Bench::with(&uncommented()).load().settings;
    let mut example = settings.drivers.remove(EXAMPLE).unwrap();
    assert_eq!(settings, with_discovery());
    assert!(settings.drivers.is_empty());
    assert_eq!(example.name.take().as_deref(), Some(EXAMPLE));
    assert_eq!(example, Settings::default().driver(EXAMPLE));
}

#[test]
fn every_key_is_in_the_file() {
    let loaded = Bench::with(&uncommented()).load();
    for key in KEYS {
        assert!(
            loaded.origins.contains(&crate::config::Key::dotted(key)),
            "{key}"
        );
    }
    for key in known_driver_keys() {
        assert!(
            loaded
                .origins
                .contains(&crate::config::Key::driver(EXAMPLE, key)),
            "{key}"
        );
    }
}

#[test]
fn the_list_of_keys_is_what_the_structs_know() {
    let mut all = BTreeSet::new();
    for key in known(&[]) {
        match *key {
            "plugins_dir" | "registry_dir" => {
                all.insert((*key).to_owned());
            }
            "drivers" => {}
            table => all.extend(known(&[table]).iter().map(|key| format!("{table}.{key}"))),
        }
    }
    assert_eq!(all, KEYS.iter().map(|key| (*key).to_owned()).collect());
}

#[test]
fn every_key_is_explained() {
    let loaded = Bench::with(&uncommented()).load();
    let explained: Vec<String> = loaded
        .provenance()
        .iter()
        .map(|entry| entry.key.to_string())
        .collect();
    assert_eq!(explained[..KEYS.len()], *KEYS);
    let of_driver = of_driver(&loaded.settings.driver(EXAMPLE));
    let of_driver: BTreeSet<_> = of_driver.into_iter().map(|(key, _)| key).collect();
    assert_eq!(of_driver, known_driver_keys());
}

#[test]
fn a_driver_may_have_every_key_of_the_defaults() {
    let defaults = known(&["defaults"]).iter().copied().collect();
    assert!(known_driver_keys().is_superset(&defaults));
}
