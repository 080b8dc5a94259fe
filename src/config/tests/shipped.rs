//! The shipped file tells the truth about the code.

use super::*;
use crate::config::schema::keys_below;
use crate::config::settings::OWN_KEYS;
use crate::config::{Key, Settings};

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
    assert_eq!(example.name.take().unwrap().to_string(), EXAMPLE);
    assert_eq!(example, Settings::default().driver(EXAMPLE));
}

#[test]
fn every_key_is_in_the_file() {
    let loaded = Bench::with(&uncommented()).load();
    for key in keys_below(&[])
        .iter()
        .chain(&keys_below(&["drivers", EXAMPLE]))
    {
        let is_shown = loaded.origins.contains_key(key);
        assert!(is_shown, "config/config.toml does not show {key}");
    }
}

#[test]
fn the_keys_are_the_fields_in_their_order() {
    let keys = |keys: Vec<Key>| keys.iter().map(Key::to_string).collect::<Vec<_>>();
    let general = keys(keys_below(&[]));
    assert_eq!(
        general[..4],
        [
            "plugins_dir",
            "registry_dir",
            "kubelet.root_dir",
            "kubelet.plugins_registry"
        ]
    );
    assert_eq!(general.last().unwrap(), "log.target");
    let defaults = general.iter().filter(|key| key.starts_with("defaults."));
    let of_driver = keys(keys_below(&["drivers", "a.b"]));
    let shared = of_driver.iter().filter_map(|key| {
        let key = key.strip_prefix("drivers.\"a.b\".").unwrap();
        (!OWN_KEYS.contains(&key)).then(|| format!("defaults.{key}"))
    });
    assert!(defaults.cloned().eq(shared), "{general:?} {of_driver:?}");
    for key in OWN_KEYS {
        assert!(of_driver.contains(&format!("drivers.\"a.b\".{key}")));
        let fault = Bench::with(&format!("[defaults]\n{key} = 1")).fault();
        assert_eq!(
            fault,
            format!("DIR/config.toml: defaults.{key} = 1: unknown key")
        );
    }
}

#[test]
fn every_key_is_explained() {
    let loaded = Bench::with(&uncommented()).load();
    let explained = loaded.provenance();
    let keys = keys_below(&[])
        .into_iter()
        .chain(keys_below(&["drivers", EXAMPLE]));
    assert!(keys.eq(explained.iter().map(|entry| entry.key.clone())));
    for entry in explained {
        assert!(entry.value.is_some(), "{}", entry.key);
    }
}
