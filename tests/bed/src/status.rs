//! The output of `status --json`, as spec.md defines it.

use serde::Deserialize;

/// The whole answer. Unknown keys are an error: the shape is a promise to operators.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Status {
    /// The daemon's version.
    pub version: String,
    /// Whether READY was sent.
    pub ready: bool,
    /// The kubelet as the daemon sees it.
    pub kubelet: KubeletStatus,
    /// Problems that no driver has, in words.
    pub notes: Vec<String>,
    /// In no fixed order.
    pub drivers: Vec<DriverStatus>,
}

/// The kubelet as the daemon sees it.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct KubeletStatus {
    /// The directory of the links.
    pub plugins_registry: String,
    /// The pid of the process that sent Notify.
    pub pid: Option<u32>,
}

/// One driver.
#[derive(Debug, Clone, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct DriverStatus {
    /// The key in `[drivers]`, or the directory's name.
    pub id: String,
    /// As the driver reports it.
    pub name: Option<String>,
    /// One of the phases of spec.md.
    pub phase: String,
    /// The reason for the phase.
    pub reason: Option<String>,
    /// RFC 3339.
    pub since: String,
    /// The driver's socket.
    pub csi_socket: String,
    /// The driver's socket as the kubelet sees it.
    pub endpoint: Option<String>,
    /// The socket for the kubelet's calls.
    pub registration_socket: Option<String>,
    /// The link that the kubelet finds.
    pub link: Option<String>,
    /// From NodeGetInfo.
    pub node_id: Option<String>,
    /// From GetPluginInfo.
    pub vendor_version: Option<String>,
    /// Whether the driver answers.
    pub answering: bool,
    /// Volumes of the driver that are in use on the node.
    pub volumes: Option<u64>,
    /// Whether the cluster has the driver, as far as that is known.
    pub in_cluster: Option<bool>,
    /// When that was found out, RFC 3339.
    pub cluster_checked: Option<String>,
    /// Notify(true) so far.
    pub registrations: u64,
    /// Notify(false) so far.
    pub rejections: u64,
    /// Links created so far.
    pub announcements: u64,
    /// Links put back so far.
    pub link_repairs: u64,
    /// The last error.
    pub last_error: Option<String>,
}

impl Status {
    /// Parses the JSON; panics when it has another shape.
    #[track_caller]
    pub fn parse(json: &[u8]) -> Self {
        serde_json::from_slice(json).unwrap_or_else(|error| {
            panic!(
                "status --json is not as promised: {error}: {}",
                String::from_utf8_lossy(json)
            )
        })
    }

    /// The driver with this id.
    pub fn driver(&self, id: &str) -> Option<&DriverStatus> {
        self.drivers.iter().find(|driver| driver.id == id)
    }
}
