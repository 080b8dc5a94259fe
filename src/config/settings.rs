//! The effective configuration, as the rest of the daemon reads it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::choice::{LogLevel, LogTarget, OnStop, ReadyWhen};
use super::driver::{DriverDefaults, DriverKey, DriverSettings, DriverTable};
use super::tree::Tree;
use super::value::{self, Listen, RootDir};
use super::wildcard;
use crate::disk::layout::Layout;

/// Where most kubelets live.
pub(super) const KUBELET_ROOT: &str = "/var/lib/kubelet";

/// The directory under its root that a kubelet watches.
pub(super) const PLUGINS_REGISTRY: &str = "plugins_registry";

/// Everything that is configured, with all defaults filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where drivers put `<id>/csi.sock`.
    pub plugins_dir: PathBuf,
    /// Where `<name>-reg.sock` is served.
    pub registry_dir: PathBuf,
    /// `[kubelet]`
    pub kubelet: KubeletSettings,
    /// `[defaults]`
    pub defaults: DriverDefaults,
    /// `[drivers]`, by id.
    pub drivers: BTreeMap<String, DriverSettings>,
    /// `[discovery]`
    pub discovery: DiscoverySettings,
    /// `[service]`
    pub service: ServiceSettings,
    /// `[http]`
    pub http: HttpSettings,
    /// `[log]`
    pub log: LogSettings,
}

/// `[kubelet]`: where it lives and what it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeletSettings {
    /// Its root directory.
    pub root_dir: RootDir,
    /// Where the link goes. While `root_dir` is `Auto` and nothing names this directory, it is
    /// the one under `/var/lib/kubelet`; `Loaded::resolve_kubelet_root` puts the right one here.
    pub registry_dir: PathBuf,
    /// Our `registry_dir` as the kubelet sees it: the directory of the link's target.
    pub sees_registry_as: PathBuf,
}

/// `[discovery]`: drivers that nobody wrote down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiscoverySettings {
    /// Whether every `<plugins_dir>/*/csi.sock` is a driver.
    pub enabled: bool,
    /// Ids that are none, with shell-style wildcards.
    #[serde(deserialize_with = "value::patterns")]
    pub exclude: Vec<String>,
}

impl DiscoverySettings {
    /// Whether a directory of this name is left alone.
    pub fn excludes(&self, id: &str) -> bool {
        self.exclude
            .iter()
            .any(|pattern| wildcard::matches(pattern, id))
    }
}

/// `[service]`: how the daemon behaves under systemd.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServiceSettings {
    /// When READY is sent.
    pub ready_when: ReadyWhen,
    /// READY is sent after this at the latest.
    #[serde(deserialize_with = "value::duration")]
    pub ready_timeout: Duration,
    /// What becomes of the links at the end.
    pub on_stop: OnStop,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            ready_when: ReadyWhen::Started,
            ready_timeout: Duration::from_secs(60),
            on_stop: OnStop::Auto,
        }
    }
}

/// `[http]`: health, status and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where it is served; `None` is nowhere.
    #[serde(deserialize_with = "value::listen")]
    pub listen: Option<Listen>,
}

/// `[log]`: how much is said, and where.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// The least important message that is still logged.
    pub level: LogLevel,
    /// Where messages go.
    pub target: LogTarget,
}

impl Default for LogSettings {
    fn default() -> Self {
        Self {
            level: LogLevel::Info,
            target: LogTarget::Auto,
        }
    }
}

impl From<Tree> for Settings {
    fn from(tree: Tree) -> Self {
        let root = match &tree.kubelet.root_dir {
            RootDir::Path(root) => root.clone(),
            RootDir::Auto => PathBuf::from(KUBELET_ROOT),
        };
        let drivers = tree.drivers.into_iter().map(|(DriverKey(id), table)| {
            let driver = table.resolve(&id, &tree.plugins_dir, &tree.defaults);
            (id, driver)
        });
        Self {
            drivers: drivers.collect(),
            kubelet: KubeletSettings {
                root_dir: tree.kubelet.root_dir,
                registry_dir: tree
                    .kubelet
                    .registry_dir
                    .unwrap_or_else(|| root.join(PLUGINS_REGISTRY)),
                sees_registry_as: tree
                    .kubelet
                    .sees_registry_as
                    .unwrap_or_else(|| tree.registry_dir.clone()),
            },
            plugins_dir: tree.plugins_dir,
            registry_dir: tree.registry_dir,
            defaults: tree.defaults,
            discovery: tree.discovery,
            service: tree.service,
            http: tree.http,
            log: tree.log,
        }
    }
}

impl Default for Settings {
    /// The built-in defaults.
    fn default() -> Self {
        Self::from(Tree::default())
    }
}

impl Settings {
    /// What the driver with this id is told: its table where there is one, else the defaults.
    pub fn driver(&self, id: &str) -> DriverSettings {
        match self.drivers.get(id) {
            Some(driver) => driver.clone(),
            None => DriverTable::default().resolve(id, &self.plugins_dir, &self.defaults),
        }
    }

    /// The kubelet's root. While it is to be found, whatever its registry is in.
    pub fn kubelet_root(&self) -> &Path {
        let registry_dir = &self.kubelet.registry_dir;
        match &self.kubelet.root_dir {
            RootDir::Path(root) => root,
            RootDir::Auto => registry_dir.parent().unwrap_or(registry_dir),
        }
    }

    /// Where sockets and links go.
    pub(crate) fn layout(&self) -> Layout {
        let kubelet = &self.kubelet;
        Layout::new(
            &self.registry_dir,
            &kubelet.registry_dir,
            &kubelet.sees_registry_as,
        )
    }
}
