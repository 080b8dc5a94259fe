//! One driver under the supervisor: its state, its tasks, its counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::cluster_word::ClusterView;
use super::departure::Departure;
use super::files::DriverFiles;
use super::saved_state::{Counts, Origin, SavedDriver, Shown};
use super::{DriverId, Supervisor};
use crate::config::DriverSettings;
use crate::csi::monitor::Monitor;
use crate::csi::trust::Exposure;
use crate::disk::identity::Identity;
use crate::disk::layout::Layout;
use crate::disk::sweep::Unclaimed;
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
    pub(super) cluster: ClusterView,
    pub(super) last_error: Option<String>,
    /// What was wrong with the driver itself when it was last asked, until it answers.
    pub(super) contact_error: Option<String>,
    /// What the state machine complained of at the end of the last turn.
    pub(super) trouble: Option<String>,
    /// The driver was tried at least once.
    pub(super) tried: bool,
    /// Since when the driver is gone, if it answered before.
    pub(super) lost_since: Option<Instant>,
    /// The driver is to be removed, and a kubelet holds it.
    pub(super) departure: Option<Departure>,
    /// A link of an earlier run that may hold the driver, until the driver answers.
    pub(super) unclaimed: Option<Unclaimed>,
    /// The driver said that it has no Node service.
    pub(super) without_node_service: bool,
    /// Why the driver does not answer.
    pub(super) silence: control::Cause,
    /// Since when the driver answers without being registered.
    pub(super) unregistered_since: Option<Instant>,
    /// Other users may put a driver of their own in the place of one that the configuration names.
    pub(super) exposure: Option<Exposure>,
    /// What an earlier run showed of the driver, until the driver is tried.
    pub(super) resumed: Option<Shown>,
    /// An earlier run had the driver, and the journal does not say yet how it was taken up.
    pub(super) is_resuming: bool,
    /// The driver as it is in the snapshot.
    pub(super) published: Arc<control::Driver>,
    /// What state.json has of it.
    pub(super) shown: Shown,
    /// The places of socket and link, which are watched beside csi.sock.
    pub(super) followed: Option<[PathBuf; 2]>,
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
        let shown = Shown {
            phase: published.phase.clone(),
            since: published.since.clone(),
            counts: Counts::default(),
            cluster: ClusterView::default(),
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
            cluster: ClusterView::default(),
            last_error: None,
            contact_error: None,
            trouble: None,
            tried: false,
            lost_since: None,
            departure: None,
            unclaimed: None,
            without_node_service: false,
            silence: control::Cause::Unspecified,
            unregistered_since: None,
            exposure: None,
            resumed: None,
            is_resuming: false,
            published: Arc::new(published),
            shown,
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
        self.tell_change(&settings, &info);
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
            shown: Some(self.shown.clone()),
        }
    }

    /// Brings what state.json has to have of the status up to date. Tells whether it has changed.
    pub(super) fn keep_shown(&mut self) -> bool {
        // The phase of a driver of an earlier run is not known before the driver is tried.
        let (phase, since) = match &self.resumed {
            Some(before) => (&before.phase, &before.since),
            None => (&self.published.phase, &self.published.since),
        };
        let (phase, since) = (phase.clone(), since.clone());
        let shown = Shown {
            phase,
            since,
            counts: self.counts,
            cluster: self.cluster.clone(),
        };
        let before = std::mem::replace(&mut self.shown, shown);
        self.shown != before
    }

    /// Goes on with what an earlier run saved of this driver.
    pub(super) fn resume(&mut self, saved: &SavedDriver) {
        self.csi_seen.clone_from(&saved.csi_seen);
        self.is_resuming = true;
        let Some(shown) = &saved.shown else { return };
        self.counts = shown.counts;
        self.cluster = shown.cluster.clone();
        let since: Result<Timestamp, _> = shown.since.parse();
        // A clock that was set back would show a time to come.
        if since.is_ok_and(|since| since <= Timestamp::now()) {
            self.resumed = Some(shown.clone());
            self.shown = shown.clone();
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
        Some(layout.places(self.driver.name()?))
    }

    /// The link or the socket of the driver is at this path.
    pub(super) fn has_file(&self, layout: &Layout, path: &Path) -> bool {
        let (link, socket) = (self.driver.links(), self.driver.serves());
        link.is_some_and(|(name, _)| layout.link(name) == path)
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
