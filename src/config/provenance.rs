//! The effective configuration in lines, each value with the place it came from.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::driver::DriverSettings;
use super::key::Key;
use super::literal;
use super::origin::Origin;
use super::value::{Listen, RootDir};
use super::{Loaded, Settings};
use crate::os::columns::{columns, padded};

/// Comments start in one column, unless a line is longer than this.
const COLUMN_MAX: usize = 76;

/// How a value came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// Set there.
    Set(Origin),
    /// A driver's value that `[defaults]` sets there.
    Defaults(Origin),
    /// `"auto"` was set there, and this was found, for the reason in words.
    Found(Origin, String),
    /// Follows from other keys.
    Derived(&'static str),
    /// Not known before the driver answers.
    Learned,
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(Origin::BuiltIn) | Self::Defaults(Origin::BuiltIn) => Origin::BuiltIn.fmt(f),
            Self::Set(origin) => write!(f, "from {origin}"),
            Self::Defaults(origin) => write!(f, "from [defaults], {origin}"),
            Self::Found(origin, why) => write!(f, "found for \"auto\" from {origin}: {why}"),
            Self::Derived(from) => write!(f, "derived from {from}"),
            Self::Learned => f.write_str("learned from the driver"),
        }
    }
}

/// One effective value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedKey {
    /// Its key.
    pub key: Key,
    /// The value as TOML; `None` when there is none yet.
    pub value: Option<String>,
    /// How it came about.
    pub provenance: Provenance,
}

impl Loaded {
    /// Every effective value, drivers last.
    pub fn provenance(&self) -> Vec<ExplainedKey> {
        let mut entries: Vec<ExplainedKey> = general(&self.settings)
            .into_iter()
            .map(|(dotted, value)| {
                let key = Key::dotted(dotted);
                let provenance = self.general_provenance(&key, dotted);
                ExplainedKey {
                    key,
                    value: Some(value),
                    provenance,
                }
            })
            .collect();
        for (id, driver) in &self.settings.drivers {
            entries.extend(
                of_driver(driver)
                    .into_iter()
                    .map(|(key, value)| ExplainedKey {
                        provenance: self.driver_provenance(id, key),
                        key: Key::driver(id, key),
                        value,
                    }),
            );
        }
        entries
    }

    /// What `config` prints. It is TOML, and as a configuration file it gives the same settings.
    pub fn explain(&self) -> String {
        let lines: Vec<(String, Provenance)> = self
            .provenance()
            .into_iter()
            .map(|entry| match entry.value {
                Some(value) => (format!("{} = {value}", entry.key), entry.provenance),
                None => (format!("#{} =", entry.key), entry.provenance),
            })
            .collect();
        let widths = lines.iter().map(|(line, _)| columns(line));
        let column = widths
            .filter(|width| *width <= COLUMN_MAX)
            .max()
            .unwrap_or(0);
        let line = |(line, provenance): &(String, Provenance)| {
            format!("{}  # {provenance}\n", padded(line, column))
        };
        lines.iter().map(line).collect()
    }

    fn general_provenance(&self, key: &Key, dotted: &str) -> Provenance {
        if let ("kubelet.root_dir", Some(origin), Some(why)) =
            (dotted, self.origins.get(key), &self.root_found)
        {
            return Provenance::Found(origin.clone(), why.clone());
        }
        match (self.origins.get(key), dotted) {
            (Some(origin), _) => Provenance::Set(origin.clone()),
            (None, "kubelet.registry_dir") => Provenance::Derived("kubelet.root_dir"),
            (None, "kubelet.sees_registry_as") => Provenance::Derived("registry_dir"),
            (None, _) => Provenance::Set(Origin::BuiltIn),
        }
    }

    fn driver_provenance(&self, id: &str, key: &str) -> Provenance {
        if let Some(origin) = self.origins.get(&Key::driver(id, key)) {
            return Provenance::Set(origin.clone());
        }
        match key {
            "csi_socket" => Provenance::Derived("plugins_dir and the id"),
            "endpoint" => Provenance::Derived("csi_socket"),
            "name" => Provenance::Learned,
            _ => Provenance::Defaults(self.origins.of_key(&Key::of(&["defaults", key]))),
        }
    }
}

/// The values outside `[drivers]`, in the order of `KEYS`.
fn general(settings: &Settings) -> Vec<(&'static str, String)> {
    let Settings {
        kubelet,
        defaults,
        discovery,
        service,
        http,
        log,
        ..
    } = settings;
    vec![
        ("plugins_dir", path(&settings.plugins_dir)),
        ("registry_dir", path(&settings.registry_dir)),
        ("kubelet.root_dir", root(&kubelet.root_dir)),
        ("kubelet.registry_dir", path(&kubelet.registry_dir)),
        ("kubelet.sees_registry_as", path(&kubelet.sees_registry_as)),
        (
            "defaults.request_timeout",
            duration(defaults.request_timeout),
        ),
        (
            "defaults.node_info_timeout",
            duration(defaults.node_info_timeout),
        ),
        ("defaults.retry_max", duration(defaults.retry_max)),
        ("defaults.require_probe", defaults.require_probe.to_string()),
        (
            "defaults.withdraw_after",
            withdrawal(defaults.withdraw_after),
        ),
        (
            "defaults.on_live_owner",
            literal::string(defaults.on_live_owner.word()),
        ),
        ("discovery.enabled", discovery.enabled.to_string()),
        ("discovery.exclude", literal::strings(&discovery.exclude)),
        (
            "service.ready_when",
            literal::string(service.ready_when.word()),
        ),
        ("service.ready_timeout", duration(service.ready_timeout)),
        ("service.on_stop", literal::string(service.on_stop.word())),
        ("http.listen", listen(http.listen.as_ref())),
        ("log.level", literal::string(log.level.word())),
        ("log.target", literal::string(log.target.word())),
    ]
}

/// Every key of a driver's table.
pub(super) fn of_driver(driver: &DriverSettings) -> Vec<(&'static str, Option<String>)> {
    vec![
        ("csi_socket", Some(path(&driver.csi_socket))),
        ("endpoint", Some(path(&driver.endpoint))),
        ("name", driver.name.as_deref().map(literal::string)),
        (
            "supported_versions",
            Some(literal::strings(&driver.supported_versions)),
        ),
        ("request_timeout", Some(duration(driver.request_timeout))),
        (
            "node_info_timeout",
            Some(duration(driver.node_info_timeout)),
        ),
        ("retry_max", Some(duration(driver.retry_max))),
        ("require_probe", Some(driver.require_probe.to_string())),
        ("withdraw_after", Some(withdrawal(driver.withdraw_after))),
        (
            "on_live_owner",
            Some(literal::string(driver.on_live_owner.word())),
        ),
    ]
}

fn path(path: &Path) -> String {
    literal::string(&path.display().to_string())
}

fn root(root: &RootDir) -> String {
    match root {
        RootDir::Path(root) => path(root),
        RootDir::Auto => literal::string("auto"),
    }
}

fn duration(span: Duration) -> String {
    literal::string(&humantime::format_duration(span).to_string())
}

fn withdrawal(span: Option<Duration>) -> String {
    span.map_or_else(|| literal::string("never"), duration)
}

fn listen(listen: Option<&Listen>) -> String {
    match listen {
        None => literal::string(""),
        Some(Listen::Tcp(address)) => literal::string(&address.to_string()),
        Some(Listen::Unix(path)) => literal::string(&format!("unix:{}", path.display())),
    }
}
