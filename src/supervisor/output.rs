//! After each turn: what happened is written down, and whoever wants to know is told.

use jiff::Timestamp;
use tokio::time::Instant;

use super::reports::UNSEEN_KUBELET;
use super::{DriverId, RESYNC, Supervisor};
use crate::api::snapshot::Daemon;
use crate::config::ReadyWhen;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::Kubelet;
use crate::os::clock::Moment;
use crate::supervisor::state_file::SavedState;

impl Supervisor {
    /// After everything that came in at once: write, answer, tell.
    pub(super) fn finish_turn(&mut self) -> Instant {
        self.let_go_of_the_departed();
        self.write_down();
        if !self.ready
            && (self.is_ready() || self.started.elapsed() >= self.settings.service.ready_timeout)
        {
            self.ready = true;
            self.notifier.ready(&self.status_line());
            self.changed = true;
        }
        self.notifier.retry();
        if std::mem::take(&mut self.changed) {
            self.notifier.status(&self.status_line());
        }
        let wake = self.started + (self.next_wake() - Moment::default());
        let daemon = Daemon {
            ready: self.ready,
            kubelet: Kubelet {
                registry_dir: self.layout.kubelet_dir().to_string_lossy().into_owned(),
                pid: self.kubelets.pid(),
            },
            notes: self.notes(),
        };
        let driver = |id: &DriverId| Some(self.entries.get(id)?.status(id, &self.layout));
        self.board.publish(daemon, driver, wake);
        self.answer_clients();
        wake
    }

    /// After the snapshot, so that a client finds the effect of its command there.
    pub(super) fn answer_clients(&mut self) {
        for (reply, outcome) in self.outcomes.drain(..) {
            if reply.send(outcome).is_err() {
                tracing::debug!("a client left before it had its answer");
            }
        }
    }

    /// Writes what is new, and then answers those who have told it.
    pub(super) fn write_down(&mut self) {
        if std::mem::take(&mut self.unsaved) {
            self.save();
        }
        for heard in self.unanswered.drain(..) {
            if heard.send(()).is_err() {
                tracing::debug!("a kubelet left before it had its answer");
            }
        }
    }

    pub(super) fn save(&mut self) {
        // Another instance's state is not overwritten.
        self.hold_runtime();
        let lost = self.runtime_trouble.is_some() || self.evicted.is_some();
        self.unsaved = lost;
        let Some(runtime) = self.runtime.as_ref().filter(|_| !lost) else {
            return;
        };
        let records = self
            .entries
            .iter()
            .map(|(id, entry)| (id.to_string(), entry.written()));
        let state = SavedState::new(
            self.kubelets.marks(),
            self.kubelets.watched(),
            self.called_in.clone(),
            self.layout.clone(),
            records.collect(),
        );
        let path = runtime.state();
        match state.save(&path) {
            Ok(()) if std::mem::take(&mut self.save_failing) => {
                tracing::info!(path = %path.display(), "the state can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(&mut self.save_failing, true) {
                    tracing::warn!(%error, path = %path.display(), "cannot write the state; a restart may cost a registration");
                }
                // There may be no other occasion to write for months.
                self.unsaved = true;
                self.hurry_resync();
            }
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.entries
            .values()
            .all(|entry| match self.settings.service.ready_when {
                ReadyWhen::Started => entry.tried,
                ReadyWhen::Serving => {
                    entry.driver.serves().is_some() && entry.driver.answer().is_some()
                }
                ReadyWhen::Registered => entry.shown.phase == Phase::Registered,
            })
    }

    /// systemd is to wait for as long as READY may be held back, and asked again before that is
    /// over: it counts in 32 bits of microseconds, and the settings may change meanwhile.
    pub(super) fn ask_for_time(&self) {
        let ready_timeout = self.settings.service.ready_timeout;
        let left = ready_timeout.saturating_sub(self.started.elapsed());
        self.notifier.more_time(left + RESYNC);
    }

    /// One line of truth.
    pub(super) fn status_line(&self) -> String {
        if let Some(refusal) = &self.refusal {
            return format!("the changed configuration was refused, the old one stays: {refusal}");
        }
        let mut line = self.drivers_line();
        if let Some(why) = &self.http_trouble {
            line += &format!("; http is not served: {why}");
        }
        if let Some(trouble) = &self.runtime_trouble {
            line += &format!("; {trouble}");
        }
        line
    }

    fn drivers_line(&self) -> String {
        let all = self.entries.len();
        if all == 0 {
            return if self.settings.discovery.enabled {
                let directory = self.settings.plugins_dir.display();
                format!("no drivers yet; looking for them in {directory}")
            } else {
                "no drivers configured".to_owned()
            };
        }
        let mut others = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.shown.phase != Phase::Registered);
        let first = others.next();
        let more = others.count();
        let registered = all - more - usize::from(first.is_some());
        let mut line = format!("{registered} of {all} drivers registered");
        if let Some((id, entry)) = first {
            line += &format!("; {id}: {}", entry.shown.reason);
        }
        if more > 0 {
            line += &format!("; and {more} more");
        }
        line
    }

    /// What is wrong with the daemon itself, whatever the drivers are.
    pub(super) fn notes(&self) -> Vec<String> {
        let refused = self.refusal.as_ref().map(|refusal| {
            format!("the changed configuration was refused, the old one stays: {refusal}")
        });
        let unwatched_paths = self.watcher.unwatched_paths().next().map(|directory| {
            format!(
                "inotify does not watch {}, so that changes are looked for every second",
                directory.display()
            )
        });
        let forbidden = self.watcher.forbidden().next();
        let forbidden = forbidden.map(|directory| self.watcher.unreadable(directory));
        let http = self.http_trouble.as_ref();
        let http = http.map(|why| format!("http is not served: {why}"));
        let unseen = self.kubelets.are_unseen() && !self.links_are_sockets();
        let unseen = unseen.then(|| UNSEEN_KUBELET.to_owned());
        let runtime = self.runtime_trouble.clone();
        let exposed = self.exposed();
        let notes = refused.into_iter().chain(unwatched_paths).chain(forbidden);
        let notes = notes.chain(exposed).chain(http);
        notes.chain(runtime).chain(unseen).collect()
    }

    pub(super) fn refresh(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.endpoint.offer(entry.offer());
        entry
            .endpoint
            .link(entry.driver.links().map(|(_, _, link)| link.clone()));
        entry.retired.retain(|task| !task.is_finished());
        self.schedule.set(id, entry.driver.deadline());
        let (phase, reason) = (entry.driver.phase(), entry.driver.reason());
        let trouble = entry.driver.trouble();
        if trouble.is_some() {
            entry.last_error.clone_from(&trouble);
        } else if phase == Phase::Registered && entry.last_error == entry.shown.trouble {
            // It is over, and the kubelet has the driver.
            entry.last_error = None;
        }
        entry.shown.trouble = trouble;
        let moved = phase != entry.shown.phase;
        if moved {
            entry.shown.since = Timestamp::now();
        }
        let registered = entry.tally.registrations != entry.shown.registrations;
        entry.shown.registrations = entry.tally.registrations;
        if let Some(took) = entry.time_to_register() {
            self.metrics.registering.ended(id, took);
        }
        if moved || reason != entry.shown.reason {
            entry.shown.phase = phase;
            entry.shown.reason = reason;
            self.changed = true;
            entry.log(id, &self.layout, moved, registered);
        }
        self.board.touch(id);
        self.follow_places(id);
        if moved {
            self.offer_the_name(id);
        }
    }
}
