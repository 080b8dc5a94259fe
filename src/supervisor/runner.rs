//! One driver under the supervisor: its state, its tasks, its counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::files::DriverFiles;
use super::saved_state::{Origin, SavedDriver};
use super::{DriverId, Supervisor};
use crate::config::DriverSettings;
use crate::csi::monitor::Monitor;
use crate::csi::trust::Exposure;
use crate::disk::identity::Identity;
use crate::disk::layout::Layout;
use crate::driver::phase::Phase;
use crate::driver::{AdvertisedInfo, Driver};
use crate::grpc::proto::control;
use crate::grpc::proto::registration::PluginInfo;
use crate::kubelet::endpoint::session::Endpoint;
use crate::os::clock::Moment;

/// What the kubelet calls a CSI driver.
const PLUGIN_TYPE: &str = "CSIPlugin";

/// Names a runner for as long as it lives, whatever the id of its driver becomes. No runner gets the
/// key of an earlier runner, so that an input for a driver that was removed reaches no other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RunnerKey(pub(super) u64);

/// A driver and all that runs for it.
pub(super) struct Runner {
    pub(super) id: DriverId,
    pub(super) settings: DriverSettings,
    pub(super) origin: Origin,
    pub(super) driver: Driver,
    pub(super) monitor: Monitor,
    /// Counts the monitors: the report of an earlier monitor is out of date.
    pub(super) generation: u64,
    /// csi.sock as it was when the driver last came: another socket is another run of the driver.
    pub(super) csi_seen: Option<Identity>,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) files: DriverFiles,
    pub(super) counts: Counts,
    pub(super) last_error: Option<String>,
    /// What was wrong with the driver itself when it was last asked, until it answers.
    pub(super) contact_error: Option<String>,
    /// What the state machine complained of at the end of the last turn.
    pub(super) trouble: Option<String>,
    /// The driver was tried at least once.
    pub(super) tried: bool,
    /// Since when the driver is gone, if it answered before.
    pub(super) lost_since: Option<Instant>,
    /// Since when the directory of a driver that was discovered is gone, while a kubelet holds it.
    pub(super) directory_gone_since: Option<Moment>,
    /// The driver said that it has no Node service.
    pub(super) without_node_service: bool,
    /// Why the driver does not answer.
    pub(super) silence: control::Cause,
    /// Since when the driver answers without being registered.
    pub(super) unregistered_since: Option<Instant>,
    /// Other users may put a driver of their own in the place of one that the configuration names.
    pub(super) exposure: Option<Exposure>,
    /// The driver as it is in the snapshot.
    pub(super) published: Arc<control::Driver>,
    /// The places of socket and link, which are watched beside csi.sock.
    pub(super) followed: Option<[PathBuf; 2]>,
}

/// How often things happened.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) registrations: u64,
    pub(super) rejections: u64,
    pub(super) announcements: u64,
    pub(super) link_repairs: u64,
    /// The driver stopped answering.
    pub(super) disconnects: u64,
}

/// Monitors that run while the daemon still starts, until their driver has a runner.
pub(super) type EarlyMonitors = BTreeMap<DriverId, (RunnerKey, Monitor)>;

/// All runners.
pub(super) type Runners = BTreeMap<RunnerKey, Runner>;

impl Supervisor {
    pub(super) fn new_key(&mut self) -> RunnerKey {
        self.last_key += 1;
        RunnerKey(self.last_key)
    }

    pub(super) fn keys(&self) -> Vec<RunnerKey> {
        self.runners.keys().copied().collect()
    }

    pub(super) fn keys_where(&self, matches: impl Fn(&Runner) -> bool) -> Vec<RunnerKey> {
        let matching = self.runners.iter().filter(|(_, runner)| matches(runner));
        matching.map(|(key, _)| *key).collect()
    }

    pub(super) fn key_of(&self, id: &str) -> Option<RunnerKey> {
        let mut runners = self.runners.iter();
        let (key, _) = runners.find(|(_, runner)| *runner.id == *id)?;
        Some(*key)
    }
}

impl Runner {
    pub(super) fn new(
        id: DriverId,
        settings: DriverSettings,
        origin: Origin,
        monitor: Monitor,
        endpoint: Endpoint,
    ) -> Runner {
        let driver = Driver::new(settings.withdraw_after, advertised(&settings));
        let published = control::Driver {
            phase: driver.phase().to_string(),
            reason: driver.reason(),
            since: Timestamp::now().to_string(),
            ..control::Driver::default()
        };
        Runner {
            id,
            settings,
            origin,
            driver,
            monitor,
            generation: 0,
            csi_seen: None,
            endpoint: Arc::new(endpoint),
            files: DriverFiles::default(),
            counts: Counts::default(),
            last_error: None,
            contact_error: None,
            trouble: None,
            tried: false,
            lost_since: None,
            directory_gone_since: None,
            without_node_service: false,
            silence: control::Cause::Unspecified,
            unregistered_since: None,
            exposure: None,
            published: Arc::new(published),
            followed: None,
        }
    }

    /// Goes on with changed settings, and with the monitor that goes by them.
    pub(super) fn reconfigure(
        &mut self,
        settings: DriverSettings,
        monitor: Monitor,
        origin: Origin,
        now: Moment,
    ) {
        let before = &self.settings;
        let elsewhere = before.csi_socket != settings.csi_socket || before.name != settings.name;
        let (away, info) = (settings.withdraw_after, advertised(&settings));
        self.driver.reconfigure(away, info, elsewhere, now);
        // A driver that is looked for elsewhere has not been tried there.
        self.tried &= !elsewhere;
        self.settings = settings;
        self.monitor = monitor;
        self.generation += 1;
        self.origin = origin;
    }

    /// What must survive the daemon.
    pub(super) fn saved(&self) -> SavedDriver {
        SavedDriver {
            record: self.driver.record(),
            origin: Some(self.origin),
            csi_socket: Some(self.settings.csi_socket.clone()),
            csi_seen: self.csi_seen.clone(),
        }
    }

    /// Something is wrong with the driver itself.
    pub(super) fn note_error(&mut self, error: String) {
        self.contact_error = Some(error.clone());
        self.last_error = Some(error);
    }

    /// The driver answers, so that what was wrong with it is over. What a kubelet said is not.
    pub(super) fn clear_error(&mut self) {
        let over = self.contact_error.take();
        self.last_error
            .take_if(|error| Some(&*error) == over.as_ref());
    }

    /// What GetInfo answers now.
    pub(super) fn plugin_info(&self) -> Option<PluginInfo> {
        let answer = self.driver.answer()?;
        let advertised = self.driver.advertised();
        Some(PluginInfo {
            r#type: PLUGIN_TYPE.to_owned(),
            name: answer.name.to_string(),
            endpoint: text(&advertised.endpoint),
            supported_versions: advertised.versions.clone(),
        })
    }

    /// Where the socket and the link belong.
    pub(super) fn places(&self, layout: &Layout) -> Option<[PathBuf; 2]> {
        Some(layout.places(self.driver.name()?, self.driver.alias()))
    }

    /// The link or the socket of the driver is at this path.
    pub(super) fn has_file(&self, layout: &Layout, path: &Path) -> bool {
        let (link, socket) = (self.driver.links(), self.driver.serves());
        link.is_some_and(|(name, alias, _)| layout.link(name, alias) == path)
            || socket.is_some_and(|(name, _)| layout.socket(name) == path)
    }

    /// The driver answers, and the kubelet can find it: socket and link exist.
    pub(super) fn is_serving(&self) -> bool {
        let driver = &self.driver;
        driver.answer().is_some() && driver.serves().is_some() && driver.links().is_some()
    }

    /// Keeps the last error up to date with what the state machine complains of.
    pub(super) fn follow_trouble(&mut self) {
        let trouble = self.driver.trouble();
        if trouble.is_some() {
            self.last_error.clone_from(&trouble);
        } else if self.driver.phase() == Phase::Registered && self.last_error == self.trouble {
            // It is over, and the kubelet has the driver.
            self.last_error = None;
        }
        self.trouble = trouble;
    }

    /// How long the kubelet took, when it has just registered a driver that answered before.
    pub(super) fn time_to_register(&mut self) -> Option<Duration> {
        match self.driver.phase() {
            Phase::Registered => Some(self.unregistered_since.take()?.elapsed()),
            // Another process has our socket's place, of which a kubelet notices nothing.
            Phase::Conflict if self.driver.is_registered() => None,
            Phase::WaitingForKubelet | Phase::Rejected | Phase::Conflict => {
                self.unregistered_since.get_or_insert_with(Instant::now);
                None
            }
            Phase::WaitingForDriver | Phase::Withdrawn => {
                self.unregistered_since = None;
                None
            }
        }
    }
}

fn advertised(settings: &DriverSettings) -> AdvertisedInfo {
    AdvertisedInfo {
        endpoint: settings.endpoint.clone(),
        versions: settings.supported_versions.clone(),
    }
}

pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
