//! What the daemon shows: the snapshot for clients, the journal, and systemd's STATUS and READY.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;

use super::departure::Departure;
use super::runner::text;
use super::{DriverId, RESYNC, Runner, Supervisor, Timer};
use crate::api::snapshot::{Daemon, Snapshot, Snapshots};
use crate::api::{cluster, status};
use crate::config::ReadyWhen;
use crate::disk::layout::Layout;
use crate::disk::obstacle::Obstacle;
use crate::driver::phase::Phase;
use crate::driver::refusal;
use crate::grpc::proto::control::{Cause, Driver, Kubelet};
use crate::os::clock::Moment;
use crate::systemd::journal::message_id;

/// How soon systemd is told again what it had no room for: many units start with us at a boot.
const TELL_AGAIN: Duration = Duration::from_millis(50);

/// The snapshot, and the drivers that have changed since it was published.
#[derive(Default)]
pub(super) struct StatusBoard {
    snapshot: watch::Sender<Arc<Snapshot>>,
    changed: BTreeMap<DriverId, Option<Arc<Driver>>>,
}

/// What is wrong with the daemon itself, in words.
#[derive(Default)]
pub(super) struct Troubles {
    /// The changed configuration was refused.
    pub(super) refusal: Option<String>,
    /// HTTP is not served.
    pub(super) http: Option<String>,
}

impl StatusBoard {
    pub(super) fn readers(&self) -> Snapshots {
        Snapshots::new(self.snapshot.subscribe())
    }

    /// The driver has changed, or was removed.
    pub(super) fn set(&mut self, id: &DriverId, driver: Option<Arc<Driver>>) {
        self.changed.insert(id.clone(), driver);
    }

    /// Brings the snapshot up to date. Readers that wait for a change wake up only where it changed,
    /// and that is returned.
    pub(super) fn publish(&mut self, daemon: Daemon, next_turn: Instant) -> bool {
        let drivers = std::mem::take(&mut self.changed);
        self.snapshot.send_if_modified(|shared| {
            let snapshot = Arc::make_mut(shared);
            let has_changed = !drivers.is_empty() || snapshot.daemon != daemon;
            snapshot.next_turn = Some(next_turn);
            snapshot.daemon = daemon;
            for (id, driver) in drivers {
                match driver {
                    Some(driver) => drop(snapshot.drivers.insert(id, driver)),
                    None => drop(snapshot.drivers.remove(&id)),
                }
            }
            has_changed
        })
    }
}

impl Runner {
    /// Brings the driver in the snapshot up to date, and writes a change of its phase or its reason
    /// to the journal. Tells whether it has changed.
    pub(super) fn publish(&mut self, layout: &Layout) -> bool {
        let now = self.status(layout);
        if self.tried {
            self.resumed = None;
        }
        let is_taken_up = self.tried && std::mem::take(&mut self.is_resuming);
        if now == *self.published && !is_taken_up {
            return false;
        }
        let before = std::mem::replace(&mut self.published, Arc::new(now));
        let has_moved = before.phase != self.published.phase;
        if is_taken_up {
            self.log_taking_up();
        }
        // What a restart makes of a driver is said once, when the driver was tried.
        let is_said = (is_taken_up || self.is_resuming) && self.trouble.is_none();
        if (has_moved || before.reason != self.published.reason) && !is_said {
            let registered = before.registrations != self.published.registrations;
            self.log(layout, has_moved, registered);
        }
        true
    }

    fn log_taking_up(&self) {
        let (id, published) = (&self.id, &*self.published);
        let (phase, since, reason) = (&published.phase, &published.since, &published.reason);
        let (csi_socket, link) = (&published.csi_socket, published.link.as_deref());
        tracing::info!(driver = %id, %phase, %csi_socket, link, "{id}: taken up after a restart, {phase} since {since}: {reason}");
    }

    /// The reason is in the line itself, because the journal shows no other field unless it is told to.
    ///
    /// `moved` is whether the phase is another, `registered` whether a kubelet has just said yes.
    fn log(&self, layout: &Layout, moved: bool, registered: bool) {
        let (id, phase, reason) = (&self.id, self.driver.phase(), &self.published.reason);
        let csi_socket = self.settings.csi_socket.display();
        let link = self.driver.links();
        let link = link.map(|(name, _)| text(&layout.link(name)));
        let link = link.as_deref();
        // A registered driver's reason mostly begins with that word.
        let phase_and_reason = match reason.starts_with(phase.as_str()) {
            true => reason.clone(),
            false => format!("{phase}: {reason}"),
        };
        let message_id = match phase {
            Phase::Registered if registered => Some(message_id::REGISTERED),
            Phase::Rejected => Some(message_id::REJECTED),
            Phase::Conflict => Some(message_id::CONFLICT),
            _ => None,
        };
        if self.trouble.is_some() {
            tracing::warn!(message_id, driver = %id, %phase, %csi_socket, link, "{id}: {phase_and_reason}");
        } else if moved || phase != Phase::Registered {
            tracing::info!(message_id, driver = %id, %phase, %csi_socket, link, "{id}: {phase_and_reason}");
        } else {
            // A driver that comes and goes while it stays registered has messages of its own.
            tracing::debug!(driver = %id, %phase, %csi_socket, link, "{id}: {phase_and_reason}");
        }
    }

    fn status(&self, layout: &Layout) -> Driver {
        let driver = &self.driver;
        let (name, answer) = (driver.name(), driver.last_answer());
        let (registered, word) = (driver.registered_answer(), self.cluster.word.as_ref());
        let phase = driver.phase().to_string();
        let resumed = self.resumed.as_ref().filter(|shown| shown.phase == phase);
        let since = if let Some(shown) = resumed {
            shown.since.clone()
        } else if phase == self.published.phase {
            self.published.since.clone()
        } else {
            Timestamp::now().to_string()
        };
        Driver {
            id: self.id.to_string(),
            name: name.map(ToString::to_string),
            phase,
            reason: self.reason(),
            since,
            csi_socket: text(&self.settings.csi_socket),
            endpoint: text(&self.settings.endpoint),
            registration_socket: name.map(|name| text(&layout.socket(name))),
            link: name.map(|name| text(&layout.link(name))),
            node_id: answer.map(|answer| answer.node_id.clone()),
            vendor_version: answer.map(|answer| answer.vendor_version.clone()),
            registrations: self.counts.registrations,
            rejections: self.counts.rejections,
            announcements: self.counts.announcements,
            link_repairs: self.counts.link_repairs,
            last_error: self.last_error.clone(),
            serving: self.is_serving(),
            answering: driver.answer().is_some(),
            // Read only when a client asks for them.
            volumes: None,
            volumes_unknown: None,
            pods: Vec::new(),
            in_cluster: word.map(|word| word.in_cluster),
            cluster_checked: word.map(|word| word.checked.into()),
            cluster_difference: word.map(|word| word.difference.clone()).unwrap_or_default(),
            registered_node_id: registered.map(|answer| answer.node_id.clone()),
            registered_topology: registered
                .map(|answer| answer.topology.clone())
                .unwrap_or_default(),
            without_node_service: self.without_node_service,
            socket_stands: driver.serves().is_some(),
            name_taken: driver.name_is_taken(),
            volume_limit: driver.answer().map(|answer| answer.max_volumes),
            registered_volume_limit: registered.map(|answer| answer.max_volumes),
            cause: self.cause().into(),
            disconnects: self.counts.disconnects,
        }
    }

    /// The state machine's reason, and why a driver that should be gone stays.
    fn reason(&self) -> String {
        let reason = self.driver.reason();
        match self.departure.as_ref().and_then(Departure::words) {
            Some(departure) => format!("{reason}; {departure}"),
            None => reason,
        }
    }

    /// The code that goes with the reason.
    fn cause(&self) -> Cause {
        let driver = &self.driver;
        let cause = match driver.phase() {
            Phase::Conflict => driver.obstacle().map(Obstacle::cause),
            Phase::Rejected => driver.refusal().map(refusal::cause),
            Phase::WaitingForKubelet => driver.why_the_kubelet_is_late(),
            Phase::WaitingForDriver | Phase::Registered | Phase::Withdrawn => {
                driver.is_silent().then_some(self.silence)
            }
        };
        cause.unwrap_or(Cause::Unspecified)
    }
}

impl Supervisor {
    /// The daemon itself, for the snapshot.
    pub(super) fn daemon(&self) -> Daemon {
        let problems = self.problems();
        // The operator declared the driver: a risk that was chosen, and no problem.
        let notes = problems.iter().cloned().chain(self.exposed()).collect();
        Daemon {
            ready: self.ready,
            kubelet: Kubelet {
                plugins_registry: text(self.layout.plugins_registry()),
                pid: self.kubelets.last_caller().map(|kubelet| kubelet.pid),
            },
            notes,
            problems,
            config_refused: self.troubles.refusal.is_some(),
            config_accepted: self.config_accepted,
            directories_without_socket: self.discovery.idle_count(),
            cluster_checked: self.cluster_checked.map(|checked| checked.0),
        }
    }

    /// What is wrong with the daemon itself, whatever the state of the drivers, and an operator has to act on.
    fn problems(&self) -> Vec<String> {
        let unwatched = self.watcher.unwatched_paths().next().map(|directory| {
            format!(
                "inotify does not watch {}, so that changes are looked for every second",
                directory.display()
            )
        });
        let forbidden = self.watcher.forbidden().next();
        let problems = [
            self.troubles.refusal.clone(),
            unwatched,
            forbidden.map(|directory| self.watcher.unreadable(directory)),
            self.troubles.http.clone(),
            self.state_file.trouble(),
            self.discovery.trouble(self.now()),
            self.discovery.idle_note(),
        ];
        problems.into_iter().flatten().collect()
    }

    /// The state in one line, for systemd.
    pub(super) fn status_line(&self) -> String {
        if let Some(refusal) = &self.troubles.refusal {
            return refusal.clone();
        }
        let troubles = [
            self.discovery.trouble(self.now()),
            self.discovery.idle_line(),
            self.troubles.http.clone(),
            self.state_file.trouble(),
        ];
        let parts = [Some(self.drivers_line())].into_iter().chain(troubles);
        parts.flatten().collect::<Vec<_>>().join("; ")
    }

    fn drivers_line(&self) -> String {
        let all = self.runners.len();
        if all == 0 {
            return if self.settings.discovery.enabled {
                let directory = self.settings.plugins_dir.display();
                format!("no drivers yet; looking for them in {directory}")
            } else {
                "no drivers configured".to_owned()
            };
        }
        let runners = self.runners.values();
        let is_registered = |runner: &&Runner| runner.driver.phase() == Phase::Registered;
        let registered = runners.clone().filter(is_registered).count();
        let others = runners.filter(|runner| !status::is_ready(&runner.published));
        let (unready, first) = (others.clone().count(), others.min_by_key(|other| &other.id));
        let mut line = format!("{registered} of {all} drivers registered");
        if let Some(runner) = first {
            let reason = cluster::ageless_reason(runner.driver.reason(), &runner.published);
            line += &format!("; {}: {reason}", runner.id);
        }
        if unready > 1 {
            line += &format!("; and {} more", unready - 1);
        }
        line
    }

    pub(super) fn is_ready(&self) -> bool {
        let ready_when = self.settings.service.ready_when;
        self.runners.values().all(|runner| match ready_when {
            ReadyWhen::Started => runner.tried,
            ReadyWhen::Serving => {
                runner.driver.serves().is_some() && runner.driver.answer().is_some()
            }
            ReadyWhen::Registered => runner.driver.phase() == Phase::Registered,
        })
    }

    /// Readiness is reached, or has been waited for long enough. Tells whether that is new.
    pub(super) fn becomes_ready(&mut self) -> bool {
        let timeout = self.settings.service.ready_timeout;
        let is_new = !self.ready && (self.started.elapsed() >= timeout || self.is_ready());
        self.ready |= is_new;
        let latest = (!self.ready).then(|| Moment::default() + timeout);
        self.timers.set(Timer::Ready, latest);
        is_new
    }

    /// Tells systemd the state where it has changed.
    pub(super) fn tell_systemd(&mut self, is_ready_now: bool, has_changed: bool) {
        if is_ready_now {
            let line = self.status_line();
            self.notifier.ready(&line);
        } else if has_changed {
            let line = self.status_line();
            self.notifier.status(&line);
        }
        self.notifier.retry();
        let owes = self.notifier.owes();
        let again = owes.then(|| self.now() + TELL_AGAIN);
        self.timers.set(Timer::Systemd, again);
    }

    /// Asks systemd to wait for as long as READY may be held back, and asks again before that is over:
    /// systemd counts in 32 bits of microseconds, and a reload may change the settings.
    pub(super) fn ask_for_time(&self) {
        if self.ready || self.is_ready() {
            return;
        }
        let ready_timeout = self.settings.service.ready_timeout;
        let left = ready_timeout.saturating_sub(self.started.elapsed());
        self.notifier.more_time(left + RESYNC);
    }
}
