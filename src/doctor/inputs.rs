//! The inputs of all checks: the configuration, the daemon's status and the host.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::api::control::ClientError;
use crate::cluster::program::NoReport;
use crate::cluster::report::Report;
use crate::config::Settings;
use crate::csi::discover::found_now;
use crate::disk::reach::Reach;
use crate::grpc::proto::control::{Driver, Status};

/// The inputs of all checks.
pub(crate) struct Inputs {
    pub(crate) settings: Settings,
    pub(crate) runtime: PathBuf,
    /// The daemon's status, or why the daemon does not answer.
    pub(crate) daemon: Result<Status, ClientError>,
    /// The proc file system.
    pub(crate) proc: PathBuf,
    pub(crate) reach: Reach,
    /// What the cluster has of the registered drivers, or why it was not asked; none without such a driver.
    pub(crate) cluster: Option<Result<Report, NoReport>>,
}

impl Inputs {
    /// The ids of the drivers that are configured, that the daemon knows, and that discovery finds
    /// now. A plugins_dir that cannot be read has no drivers; the checks of its drivers report that.
    pub(super) fn drivers(&self) -> BTreeSet<String> {
        let mut ids: BTreeSet<String> = self.settings.drivers.keys().cloned().collect();
        ids.extend(self.shown().iter().map(|driver| driver.id.clone()));
        ids.extend(found_now(&self.settings, &self.reach).unwrap_or_default());
        ids
    }

    /// The driver's socket belongs below plugins_dir.
    pub(super) fn is_in_plugins_dir(&self, id: &str) -> bool {
        let socket = self.settings.driver(id).csi_socket;
        socket.starts_with(&self.settings.plugins_dir)
    }

    /// The drivers as the daemon shows them.
    pub(super) fn shown(&self) -> &[Driver] {
        self.daemon.as_ref().map_or(&[], |status| &status.drivers)
    }
}
