//! What one driver is told, and how its table and the defaults make it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::choice::OnLiveOwner;
use super::value;

const CSI_SOCKET: &str = "csi.sock";
const CSI_VERSION: &str = "1.0.0";

/// `[defaults]`: what holds for every driver whose own table does not say otherwise.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DriverDefaults {
    /// Deadline of one CSI call.
    #[serde(deserialize_with = "value::duration")]
    pub request_timeout: Duration,
    /// Deadline of NodeGetInfo, for which some drivers ask a cloud.
    #[serde(deserialize_with = "value::duration")]
    pub node_info_timeout: Duration,
    /// Longest pause between tries at a socket that is there but does not answer.
    #[serde(deserialize_with = "value::duration")]
    pub retry_max: Duration,
    /// Whether `Identity.Probe` must say ready first.
    pub require_probe: bool,
    /// The link goes when the driver has been gone this long; `None` is never.
    #[serde(deserialize_with = "value::withdrawal")]
    pub withdraw_after: Option<Duration>,
    /// What to do about a live foreign owner of our place.
    pub on_live_owner: OnLiveOwner,
}

impl Default for DriverDefaults {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(5),
            // The kubelet's own.
            node_info_timeout: Duration::from_secs(120),
            retry_max: Duration::from_secs(5),
            require_probe: false,
            withdraw_after: None,
            on_live_owner: OnLiveOwner::Wait,
        }
    }
}

/// One driver, with everything that its table leaves out filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverSettings {
    /// Where the driver listens.
    pub csi_socket: PathBuf,
    /// The same socket as the kubelet sees it.
    pub endpoint: PathBuf,
    /// The name the driver must report; `None` takes the one it reports.
    pub name: Option<String>,
    /// The CSI versions told to the kubelet.
    pub supported_versions: Vec<String>,
    /// Deadline of one CSI call.
    pub request_timeout: Duration,
    /// Deadline of NodeGetInfo, for which some drivers ask a cloud.
    pub node_info_timeout: Duration,
    /// Longest pause between tries at a socket that is there but does not answer.
    pub retry_max: Duration,
    /// Whether `Identity.Probe` must say ready first.
    pub require_probe: bool,
    /// The link goes when the driver has been gone this long; `None` is never.
    pub withdraw_after: Option<Duration>,
    /// What to do about a live foreign owner of our place.
    pub on_live_owner: OnLiveOwner,
}

/// The key of a driver's table. It becomes a directory's name under `plugins_dir`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct DriverKey(pub(super) String);

#[derive(Debug, thiserror::Error)]
pub(super) enum IdError {
    #[error("a driver's id must not be empty")]
    Empty,
    #[error("a driver's id must not contain `/` or a NUL character, it names a directory")]
    Separator,
    #[error("a driver's id must not be `.` or `..`, it names a directory")]
    Dots,
}

impl TryFrom<String> for DriverKey {
    type Error = IdError;

    fn try_from(id: String) -> Result<Self, IdError> {
        match id.as_str() {
            "" => Err(IdError::Empty),
            "." | ".." => Err(IdError::Dots),
            _ if id.contains(['/', '\0']) => Err(IdError::Separator),
            _ => Ok(Self(id)),
        }
    }
}

/// `[drivers."id"]` as it is written: every key may be left out.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct DriverTable {
    #[serde(deserialize_with = "value::some_socket")]
    csi_socket: Option<PathBuf>,
    #[serde(deserialize_with = "value::some_socket")]
    endpoint: Option<PathBuf>,
    #[serde(deserialize_with = "value::some_name")]
    name: Option<String>,
    #[serde(deserialize_with = "value::some_versions")]
    supported_versions: Option<Vec<String>>,
    #[serde(deserialize_with = "value::some_duration")]
    request_timeout: Option<Duration>,
    #[serde(deserialize_with = "value::some_duration")]
    node_info_timeout: Option<Duration>,
    #[serde(deserialize_with = "value::some_duration")]
    retry_max: Option<Duration>,
    require_probe: Option<bool>,
    #[serde(deserialize_with = "value::some_withdrawal")]
    withdraw_after: Option<Option<Duration>>,
    on_live_owner: Option<OnLiveOwner>,
}

impl DriverTable {
    pub(super) fn resolve(
        self,
        id: &str,
        plugins_dir: &Path,
        defaults: &DriverDefaults,
    ) -> DriverSettings {
        let csi_socket = self
            .csi_socket
            .unwrap_or_else(|| plugins_dir.join(id).join(CSI_SOCKET));
        DriverSettings {
            endpoint: self.endpoint.unwrap_or_else(|| csi_socket.clone()),
            csi_socket,
            name: self.name,
            supported_versions: self
                .supported_versions
                .unwrap_or_else(|| vec![CSI_VERSION.to_owned()]),
            request_timeout: self.request_timeout.unwrap_or(defaults.request_timeout),
            node_info_timeout: self.node_info_timeout.unwrap_or(defaults.node_info_timeout),
            retry_max: self.retry_max.unwrap_or(defaults.retry_max),
            require_probe: self.require_probe.unwrap_or(defaults.require_probe),
            withdraw_after: self.withdraw_after.unwrap_or(defaults.withdraw_after),
            on_live_owner: self.on_live_owner.unwrap_or(defaults.on_live_owner),
        }
    }
}
