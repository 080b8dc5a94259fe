//! One driver under the supervisor: its state, its tasks, its counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::DriverId;
use super::lease::Leased;
use crate::config::DriverSettings;
use crate::csi::monitor::Monitor;
use crate::csi::trust::Exposure;
use crate::disk::identity::Identity;
use crate::disk::layout::{Layout, LinkAlias};
use crate::disk::link::LinkPlace;
use crate::disk::name::DriverName;
use crate::disk::reg_socket::SocketPlace;
use crate::driver::answer::Answer;
use crate::driver::phase::Phase;
use crate::driver::{AdvertisedInfo, Driver, Event};
use crate::grpc::proto::control;
use crate::grpc::proto::registration::PluginInfo;
use crate::kubelet::endpoint::Service;
use crate::kubelet::endpoint::session::Endpoint;
use crate::os::clock::Moment;
use crate::os::task::Task;
use crate::supervisor::state_file::{Origin, Written};
use crate::systemd::journal::message_id;

/// What the kubelet calls a CSI driver.
const PLUGIN_TYPE: &str = "CSIPlugin";

/// A driver and all that runs for it.
pub(crate) struct Runner {
    pub(crate) settings: DriverSettings,
    /// It was found in plugins_dir; no table names it.
    pub(crate) found: bool,
    pub(crate) driver: Driver,
    pub(crate) contact: Leased<Monitor>,
    /// csi.sock as it was when the driver last came: another one is another run of the driver.
    pub(crate) csi_seen: Option<Identity>,
    pub(crate) endpoint: Leased<Arc<Endpoint>>,
    pub(crate) service: Option<Service>,
    /// Services whose socket is gone, while a call on them is in progress.
    pub(crate) retired: Vec<Task>,
    /// Waits for the end of whoever is at our place.
    pub(crate) owner: Option<Leased<Task>>,
    pub(crate) tally: Tally,
    pub(crate) last_error: Option<String>,
    /// What was wrong with the driver itself when it was last asked, until it answers.
    pub(crate) contact_error: Option<String>,
    /// The driver was tried at least once.
    pub(crate) tried: bool,
    /// Since when the driver is gone, if it answered before.
    pub(crate) lost_since: Option<Instant>,
    /// The driver said that it has no Node service.
    pub(crate) without_node_service: bool,
    /// What was wrong with the driver when it was last asked.
    pub(crate) silence: control::Cause,
    /// Since when the driver answers without being registered.
    pub(crate) unregistered_since: Option<Instant>,
    /// Something of ours was taken away, and is not back yet.
    pub(crate) link_missing: bool,
    /// Others may put themselves in the place of a driver that the configuration names.
    pub(crate) exposure: Option<Exposure>,
    pub(crate) shown: Shown,
    /// The paths that are watched for it, beside csi.sock.
    pub(crate) followed: Followed,
}

/// How often things happened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) registrations: u64,
    pub(crate) rejections: u64,
    pub(crate) announcements: u64,
    pub(crate) link_repairs: u64,
}

impl Tally {
    /// Counts a link that was made: put back where one had been taken away, else announced.
    pub(crate) fn link_made(&mut self, was_missing: bool) {
        if was_missing {
            self.link_repairs += 1;
        } else {
            self.announcements += 1;
        }
    }
}

/// The phase as it was last told to anybody.
pub(crate) struct Shown {
    pub(crate) phase: Phase,
    pub(crate) reason: String,
    /// What was wrong then.
    pub(crate) trouble: Option<String>,
    pub(crate) since: Timestamp,
    /// How often a kubelet had said yes.
    pub(crate) registrations: u64,
}

#[derive(Default)]
pub(crate) struct Followed {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) link: Option<PathBuf>,
}

impl Runner {
    pub(crate) fn new(
        settings: DriverSettings,
        contact: Leased<Monitor>,
        endpoint: Leased<Arc<Endpoint>>,
    ) -> Runner {
        let driver = Driver::new(settings.withdraw_after, terms(&settings));
        let shown = Shown {
            phase: driver.phase(),
            reason: driver.reason(),
            trouble: None,
            since: Timestamp::now(),
            registrations: 0,
        };
        Runner {
            settings,
            found: false,
            driver,
            contact,
            csi_seen: None,
            endpoint,
            service: None,
            retired: Vec::new(),
            owner: None,
            tally: Tally::default(),
            last_error: None,
            contact_error: None,
            tried: false,
            lost_since: None,
            without_node_service: false,
            silence: control::Cause::Unspecified,
            unregistered_since: None,
            link_missing: false,
            exposure: None,
            shown,
            followed: Followed::default(),
        }
    }

    /// Goes on with changed settings, and with the contact that goes by them.
    pub(crate) fn reconfigure(
        &mut self,
        settings: DriverSettings,
        contact: Leased<Monitor>,
        found: bool,
        now: Moment,
    ) {
        let before = &self.settings;
        let elsewhere = before.csi_socket != settings.csi_socket || before.name != settings.name;
        self.driver
            .reconfigure(settings.withdraw_after, terms(&settings), elsewhere, now);
        // What is looked for elsewhere has not been tried there.
        self.tried &= !elsewhere;
        self.settings = settings;
        self.contact = contact;
        self.found = found;
    }

    /// The driver has answered on this socket. One that has run on since before we came is not one
    /// that came back.
    pub(crate) fn came(&mut self, answer: Answer, socket: Identity) -> Event {
        let same = self.csi_seen.as_ref() == Some(&socket);
        self.csi_seen = Some(socket);
        if same && !self.driver.is_silent() {
            Event::DriverChanged(answer)
        } else {
            Event::DriverAnswered(answer)
        }
    }

    /// What must survive us.
    pub(crate) fn written(&self) -> Written {
        Written {
            record: self.driver.record(),
            origin: Some(if self.found {
                Origin::Discovery
            } else {
                Origin::Table
            }),
            csi_socket: Some(self.settings.csi_socket.clone()),
            csi_seen: self.csi_seen.clone(),
        }
    }

    /// Something is wrong with the driver itself.
    pub(crate) fn note_error(&mut self, error: String) {
        self.contact_error = Some(error.clone());
        self.last_error = Some(error);
    }

    /// The driver answers, so that what was wrong with it is over. What a kubelet said is not.
    pub(crate) fn forget_error(&mut self) {
        let over = self.contact_error.take();
        self.last_error
            .take_if(|error| Some(&*error) == over.as_ref());
    }

    /// What GetInfo answers now.
    pub(crate) fn offer(&self) -> Option<PluginInfo> {
        let answer = self.driver.answer()?;
        let terms = self.driver.terms();
        Some(PluginInfo {
            r#type: PLUGIN_TYPE.to_owned(),
            name: answer.name.to_string(),
            endpoint: text(&terms.endpoint),
            supported_versions: terms.versions.clone(),
        })
    }

    /// The driver answers, and the kubelet can find it: socket and link stand.
    pub(crate) fn is_serving(&self) -> bool {
        let driver = &self.driver;
        driver.answer().is_some() && driver.serves().is_some() && driver.links().is_some()
    }

    /// How long the kubelet took, when it has just registered a driver that answered before.
    pub(crate) fn time_to_register(&mut self) -> Option<Duration> {
        match self.driver.phase() {
            Phase::Registered => Some(self.unregistered_since.take()?.elapsed()),
            // Somebody has our socket's place, of which a kubelet notices nothing.
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

    /// Says where the driver stands now. A reason is in the line itself, because the journal
    /// shows nothing else unless it is asked to.
    ///
    /// `moved` is whether the phase is another, `registered` whether a kubelet has just said yes.
    pub(crate) fn log(&self, id: &DriverId, layout: &Layout, moved: bool, registered: bool) {
        let Shown { phase, reason, .. } = &self.shown;
        let csi_socket = self.settings.csi_socket.display();
        let link = self
            .driver
            .links()
            .map(|(name, slot, _)| text(&layout.link(name, slot)));
        let link = link.as_deref();
        let message_id = match phase {
            Phase::Registered if registered => Some(message_id::REGISTERED),
            Phase::Rejected => Some(message_id::REJECTED),
            Phase::Conflict => Some(message_id::CONFLICT),
            _ => None,
        };
        if self.driver.trouble().is_some() {
            tracing::warn!(message_id, driver = %id, %phase, %csi_socket, link, "{id}: {phase}: {reason}");
        } else if moved || *phase != Phase::Registered {
            tracing::info!(message_id, driver = %id, %phase, %csi_socket, link, "{id}: {phase}: {reason}");
        } else {
            // A driver that comes and goes while it stays registered is told of in its own words.
            tracing::debug!(driver = %id, %phase, %csi_socket, link, "{id}: {phase}: {reason}");
        }
    }

    pub(crate) fn status(&self, id: &DriverId, layout: &Layout) -> control::Driver {
        let name = self.driver.name();
        let answer = self.driver.last_answer();
        control::Driver {
            id: id.to_string(),
            name: name.map(ToString::to_string),
            phase: self.shown.phase.to_string(),
            reason: self.shown.reason.clone(),
            since: self.shown.since.to_string(),
            csi_socket: text(&self.settings.csi_socket),
            endpoint: text(&self.settings.endpoint),
            registration_socket: name.map(|name| text(&layout.socket(name))),
            link: name.map(|name| text(&layout.link(name, self.driver.slot()))),
            node_id: answer.map(|answer| answer.node_id.clone()),
            vendor_version: answer.map(|answer| answer.vendor_version.clone()),
            registrations: self.tally.registrations,
            rejections: self.tally.rejections,
            announcements: self.tally.announcements,
            link_repairs: self.tally.link_repairs,
            last_error: self.last_error.clone(),
            serving: self.is_serving(),
            answering: self.driver.answer().is_some(),
            without_node_service: self.without_node_service,
            socket_stands: self.driver.serves().is_some(),
            name_taken: self.driver.name_is_taken(),
            volume_limit: self.driver.answer().map(|answer| answer.max_volumes),
            registered_volume_limit: self
                .driver
                .registered_answer()
                .map(|answer| answer.max_volumes),
            cause: self.cause().into(),
        }
    }
}

fn terms(settings: &DriverSettings) -> AdvertisedInfo {
    AdvertisedInfo {
        endpoint: settings.endpoint.clone(),
        versions: settings.supported_versions.clone(),
    }
}

/// A `hard` link is one that every kubelet finds when it starts: one more name of the socket itself.
pub(crate) fn link_place<'a>(
    layout: &'a Layout,
    name: &DriverName,
    slot: LinkAlias,
    hard: bool,
) -> LinkPlace<'a> {
    LinkPlace {
        hard,
        path: layout.link(name, slot),
        target: layout.target(name),
        socket: layout.socket(name),
        stage: layout.link_stage(),
    }
}

pub(crate) fn socket_place<'a>(layout: &'a Layout, name: &DriverName) -> SocketPlace<'a> {
    SocketPlace {
        path: layout.socket(name),
        stage: layout.socket_stage(),
        borrowed: layout.one_directory(),
    }
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
