//! The settings: every key of the configuration is a field here, with its built-in default.
//!
//! These types describe both what a single file may hold and what the daemon uses. The names of the
//! fields are the names of the keys; `schema` and `provenance` learn them from serde.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use glob::Pattern;
use serde::{Deserialize, Serialize};

use super::choice::{self, LogLevel, LogTarget, OnLiveOwner, OnStop, ReadyWhen};
use super::key::Key;
use super::origin::Origins;
use super::value::{self, Listen, NodeName, RootDir};
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;

const PLUGINS_DIR: &str = "/vdata/storage/plugins";
const REGISTRY_DIR: &str = "/vdata/storage/plugins_registry";
const KUBELET_ROOT: &str = "/var/lib/kubelet";

/// The directory in its root directory that a kubelet watches.
pub(crate) const PLUGINS_REGISTRY: &str = "plugins_registry";

/// The keys of a driver that `[defaults]` does not have: they belong to a single driver.
pub(super) const OWN_KEYS: [&str; 4] = ["csi_socket", "endpoint", "name", "supported_versions"];

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct Settings {
    /// Where drivers put `<id>/csi.sock`.
    #[serde(with = "value")]
    pub plugins_dir: PathBuf,
    /// Where the registrar serves `<name>-reg.sock`.
    #[serde(with = "value")]
    pub registry_dir: PathBuf,
    /// `[kubelet]`
    pub kubelet: KubeletSettings,
    /// `[defaults]`: a driver that sets nothing itself.
    pub defaults: DriverSettings,
    /// `[drivers]`, by id.
    pub drivers: BTreeMap<String, DriverSettings>,
    /// `[discovery]`
    pub discovery: DiscoverySettings,
    /// `[service]`
    pub service: ServiceSettings,
    /// `[cluster]`
    pub cluster: ClusterSettings,
    /// `[http]`
    pub http: HttpSettings,
    /// `[log]`
    pub log: LogSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            plugins_dir: PathBuf::from(PLUGINS_DIR),
            registry_dir: PathBuf::from(REGISTRY_DIR),
            kubelet: KubeletSettings::default(),
            defaults: DriverSettings::default(),
            drivers: BTreeMap::new(),
            discovery: DiscoverySettings::default(),
            service: ServiceSettings::default(),
            cluster: ClusterSettings::default(),
            http: HttpSettings::default(),
            log: LogSettings::default(),
        }
    }
}

/// `[kubelet]`: where the kubelet's directories are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct KubeletSettings {
    /// The kubelet's root directory.
    #[serde(with = "value")]
    pub root_dir: RootDir,
    /// Where the link goes. While `root_dir` is `Auto` and no layer sets this key, it is the
    /// directory under `/var/lib/kubelet`; `Loaded::resolve_kubelet_root` corrects it.
    #[serde(with = "value")]
    pub plugins_registry: PathBuf,
    /// Our `registry_dir` as the kubelet sees it: the directory of the link's target.
    #[serde(with = "value")]
    pub sees_registry_as: PathBuf,
}

impl Default for KubeletSettings {
    fn default() -> Self {
        Self {
            root_dir: RootDir::Path(PathBuf::from(KUBELET_ROOT)),
            plugins_registry: Path::new(KUBELET_ROOT).join(PLUGINS_REGISTRY),
            sees_registry_as: PathBuf::from(REGISTRY_DIR),
        }
    }
}

/// `[drivers."id"]`, and `[defaults]` except for `OWN_KEYS`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct DriverSettings {
    /// Where the driver listens.
    #[serde(deserialize_with = "value::socket")]
    pub csi_socket: PathBuf,
    /// The same socket as the kubelet sees it.
    #[serde(deserialize_with = "value::socket")]
    pub endpoint: PathBuf,
    /// The name that the driver must report; `None` accepts any name.
    pub name: Option<DriverName>,
    /// The CSI versions that the registrar reports to the kubelet.
    #[serde(deserialize_with = "value::versions")]
    pub supported_versions: Vec<String>,
    /// Deadline of a CSI call.
    #[serde(with = "value")]
    pub request_timeout: Duration,
    /// Deadline of NodeGetInfo, for which some drivers call a cloud's API.
    #[serde(with = "value")]
    pub node_info_timeout: Duration,
    /// Longest pause between attempts at a socket that exists but does not answer.
    #[serde(with = "value")]
    pub retry_max: Duration,
    /// Whether `Identity.Probe` must report ready first.
    pub require_probe: bool,
    /// The link is removed when the driver has been gone this long; `None` is never.
    #[serde(with = "value")]
    pub withdraw_after: Option<Duration>,
    /// What to do when another live process has the place of our socket or link.
    #[serde(deserialize_with = "choice::word")]
    pub on_live_owner: OnLiveOwner,
}

impl Default for DriverSettings {
    fn default() -> Self {
        Self {
            // These two follow from the driver's id: `Settings::derive_paths`.
            csi_socket: PathBuf::new(),
            endpoint: PathBuf::new(),
            name: None,
            supported_versions: vec!["1.0.0".to_owned()],
            request_timeout: Duration::from_secs(5),
            // The kubelet's own deadline.
            node_info_timeout: Duration::from_secs(120),
            retry_max: Duration::from_secs(5),
            require_probe: false,
            withdraw_after: None,
            on_live_owner: OnLiveOwner::default(),
        }
    }
}

/// `[discovery]`: drivers without a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct DiscoverySettings {
    /// Whether every `<plugins_dir>/*/csi.sock` is a driver.
    pub enabled: bool,
    /// Driver ids to ignore: valid patterns of the crate glob.
    #[serde(deserialize_with = "value::patterns")]
    pub exclude: Vec<String>,
}

impl DiscoverySettings {
    /// Whether discovery ignores a directory of this name.
    pub fn excludes(&self, id: &str) -> bool {
        let mut patterns = self.exclude.iter();
        patterns.any(|pattern| Pattern::new(pattern).is_ok_and(|pattern| pattern.matches(id)))
    }
}

/// `[service]`: how the daemon behaves under systemd.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ServiceSettings {
    /// When the daemon sends READY.
    #[serde(deserialize_with = "choice::word")]
    pub ready_when: ReadyWhen,
    /// READY is sent after this time at the latest.
    #[serde(with = "value")]
    pub ready_timeout: Duration,
    /// What happens to sockets and links when the daemon stops.
    #[serde(deserialize_with = "choice::word")]
    pub on_stop: OnStop,
}

impl Default for ServiceSettings {
    fn default() -> Self {
        Self {
            ready_when: ReadyWhen::default(),
            ready_timeout: Duration::from_secs(60),
            on_stop: OnStop::default(),
        }
    }
}

/// `[cluster]`: how the program verify reaches the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct ClusterSettings {
    /// The kubeconfig to use; `None` is the kubelet's own.
    #[serde(with = "value")]
    pub kubeconfig: Option<PathBuf>,
    /// The name of this node; `None` asks the API server.
    #[serde(with = "value")]
    pub node_name: Option<NodeName>,
}

/// `[http]`: health, status and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct HttpSettings {
    /// Where HTTP is served; `None` is nowhere.
    #[serde(with = "value")]
    pub listen: Option<Listen>,
}

/// `[log]`: which messages are logged, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, expecting = "a table")]
pub struct LogSettings {
    /// The least important message that is logged.
    #[serde(deserialize_with = "choice::word")]
    pub level: LogLevel,
    /// Where messages go.
    #[serde(deserialize_with = "choice::word")]
    pub target: LogTarget,
}

impl Settings {
    /// The settings of the driver with this id: its table, or the defaults without a table.
    pub fn driver(&self, id: &str) -> DriverSettings {
        if let Some(driver) = self.drivers.get(id) {
            return driver.clone();
        }
        let csi_socket = csi_socket(&self.plugins_dir, id);
        DriverSettings {
            endpoint: csi_socket.clone(),
            csi_socket,
            ..self.defaults.clone()
        }
    }

    /// The kubelet's root directory. Before the daemon has found it, the parent of its registry.
    pub fn kubelet_root(&self) -> &Path {
        let plugins_registry = &self.kubelet.plugins_registry;
        match &self.kubelet.root_dir {
            RootDir::Path(root) => root,
            RootDir::Auto => plugins_registry.parent().unwrap_or(plugins_registry),
        }
    }

    /// Where a kubelet may have its pods: its root directory, and the parent of a registry that is named by itself.
    pub(crate) fn kubelet_roots(&self) -> Vec<PathBuf> {
        let plugins_registry = &self.kubelet.plugins_registry;
        let is_usual = plugins_registry.ends_with(PLUGINS_REGISTRY);
        let parent = plugins_registry.parent().filter(|_| is_usual);
        let mut roots = vec![self.kubelet_root().to_owned()];
        roots.extend(
            parent
                .filter(|parent| *parent != roots[0])
                .map(Path::to_owned),
        );
        roots
    }

    /// Where sockets and links go.
    pub(crate) fn layout(&self) -> Layout {
        let kubelet = &self.kubelet;
        let (links, seen_as) = (&kubelet.plugins_registry, &kubelet.sees_registry_as);
        Layout::new(&self.registry_dir, links, seen_as)
    }

    /// Fills in the paths that follow from other keys, where no layer sets them.
    pub(super) fn derive_paths(&mut self, origins: &Origins) {
        let is_set = |path: &[&str]| origins.contains_key(&Key::of(path));
        let kubelet = &mut self.kubelet;
        if let RootDir::Path(root) = &kubelet.root_dir
            && !is_set(&["kubelet", "plugins_registry"])
        {
            kubelet.plugins_registry = root.join(PLUGINS_REGISTRY);
        }
        if !is_set(&["kubelet", "sees_registry_as"]) {
            kubelet.sees_registry_as.clone_from(&self.registry_dir);
        }
        for (id, driver) in &mut self.drivers {
            if !is_set(&["drivers", id, "csi_socket"]) {
                driver.csi_socket = csi_socket(&self.plugins_dir, id);
            }
            if !is_set(&["drivers", id, "endpoint"]) {
                driver.endpoint.clone_from(&driver.csi_socket);
            }
        }
    }
}

/// Where the driver of a directory in plugins_dir listens.
pub(crate) fn csi_socket(plugins_dir: &Path, id: &str) -> PathBuf {
    plugins_dir.join(id).join("csi.sock")
}
