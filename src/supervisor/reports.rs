//! What the tasks beside the supervisor tell it, and what it makes of that.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::cause::of_trouble;
use super::lease::Lease;
use super::{DriverId, QUIET, Runner, Supervisor};
use crate::api::command::Request;
use crate::csi::error::DriverError;
use crate::csi::monitor::MonitorReport;
use crate::driver::answer::Answer;
use crate::driver::{AdvertisedInfo, Event};
use crate::grpc::proto::control::Cause;
use crate::kubelet::endpoint::session::{KubeletAsking, KubeletCall, Outcome, Told};
use crate::os::process::Process;
use crate::systemd::journal::message_id;

/// Reports taken in before anything is written down: one write serves many.
const BATCH: usize = 256;

/// Why a link is made anew as a socket.
pub(super) const UNSEEN: &str =
    "the kubelet cannot be seen from here, and gets a socket in the place of the link";

/// What an operator has to know where nothing can be done about it from here.
pub(super) const UNSEEN_KUBELET: &str = "neither the kubelet's process nor its start can be seen from here: a kubelet before 1.25 that restarts loses the drivers until they are announced again; run the registrar with hostPID, or mount the kubelet's root directory";

/// What the tasks beside the supervisor tell it.
pub(super) enum Report {
    Monitor(Lease, MonitorReport),
    Called(Lease, KubeletCall),
    /// Whoever was at our place has gone.
    OwnerEnded(Lease),
    KubeletEnded(Process),
    /// What is in plugins_dir, and which one that was.
    Plugins(PathBuf, io::Result<Option<BTreeSet<DriverId>>>),
    /// A csi.sock that is there, in a directory that had none.
    Candidate(DriverId, PathBuf),
    Request(Request),
}

impl Supervisor {
    pub(super) fn take_batch(&mut self, first: Report) {
        self.take(first);
        for _ in 1..BATCH {
            let Ok(report) = self.reports.try_recv() else {
                return;
            };
            self.take(report);
        }
    }

    fn take(&mut self, report: Report) {
        if matches!(report, Report::Monitor(..) | Report::Called(..)) {
            self.quiet_at = Some(self.now() + QUIET);
        }
        match report {
            Report::Monitor(lease, heard) => {
                if let Some(id) = lease.driver() {
                    self.heard(&id, heard);
                }
            }
            Report::Called(lease, KubeletCall::KubeletAsking { pid }) => {
                if let Some(id) = lease.driver() {
                    self.asked(&id, pid);
                }
            }
            Report::Called(lease, KubeletCall::Told(told)) => {
                self.told(lease.driver().as_ref(), *told)
            }
            Report::OwnerEnded(lease) => {
                if let Some(id) = lease.driver() {
                    self.look_at_socket(&id);
                    self.look_at_link(&id);
                }
            }
            Report::KubeletEnded(process) => {
                tracing::info!(pid = process.pid, "the kubelet has ended");
                self.kubelets.ended(process);
                self.apply_to_all(&Event::KubeletEnded(process));
            }
            Report::Plugins(directory, seen) => self.plugins_seen(&directory, seen),
            Report::Candidate(id, socket) => self.candidate_seen(&id, &socket),
            Report::Request(Request::Command(command, reply)) => {
                let outcome = self.carry_out(command);
                self.outcomes.push((reply, outcome));
            }
            Report::Request(Request::HttpTrouble(trouble)) => {
                self.http_trouble = trouble;
                self.changed = true;
            }
        }
    }

    fn heard(&mut self, id: &DriverId, heard: MonitorReport) {
        match heard {
            MonitorReport::Answered(answer, socket) => {
                let entry = self.entries.get(id);
                self.unsaved |= entry.is_some_and(|entry| entry.csi_seen.as_ref() != Some(&socket));
                self.answered(id, answer, |entry, answer| entry.came(answer, socket));
            }
            MonitorReport::Changed(answer) => {
                self.answered(id, answer, |_, answer| Event::DriverChanged(answer));
            }
            MonitorReport::Silent(trouble) => self.fell_silent(id, &trouble),
        }
    }

    fn asked(&mut self, id: &DriverId, pid: Option<u32>) {
        if let Some(entry) = self.entries.get(id) {
            entry.endpoint.took_asked();
        }
        self.apply(id, Event::KubeletAsked(pid.and_then(Process::of)));
    }

    /// A driver gave an answer that can be used, unless its name is too long for our paths.
    fn answered(
        &mut self,
        id: &DriverId,
        answer: Answer,
        event: impl FnOnce(&mut Runner, Answer) -> Event,
    ) {
        let fits = self.layout.check(&answer.name);
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.without_node_service = false;
        let event = match fits {
            Ok(()) => {
                entry.forget_error();
                event(entry, answer)
            }
            Err(too_long) => {
                entry.note_error(too_long.to_string());
                entry.silence = Cause::Unspecified;
                Event::DriverSilent(too_long.to_string())
            }
        };
        self.tried(id, None);
        self.apply(id, event);
    }

    /// A driver does not answer, or not yet.
    fn fell_silent(&mut self, id: &DriverId, trouble: &DriverError) {
        let why = trouble.to_string();
        self.tried(id, Some(trouble));
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.without_node_service = matches!(trouble, DriverError::NoNodeService);
        entry.silence = of_trouble(trouble);
        if matches!(trouble, DriverError::Slow { .. }) {
            // It was reached: a socket that nobody listened on yet is no trouble any more.
            entry.forget_error();
            return self.apply(id, Event::DriverSlow(why));
        }
        if trouble.is_error() {
            entry.note_error(why.clone());
        }
        let was_silent = entry.driver.is_silent();
        let event = if trouble.is_taken(entry.csi_seen.as_ref()) {
            Event::DriverTaken(why)
        } else if matches!(trouble, DriverError::Exposed { .. }) {
            Event::DriverRefused(why)
        } else {
            Event::DriverSilent(why)
        };
        self.apply(id, event);
        // Its name was kept for it until now.
        if !was_silent {
            self.offer_the_name(id);
        }
    }

    /// A kubelet said how the registration went. It has its answer when that is written down, also
    /// where the driver that it speaks of is no longer ours.
    fn told(&mut self, id: Option<&DriverId>, told: Told) {
        self.unanswered.push(told.heard);
        let kubelet = told.pid.and_then(Process::behind);
        self.kubelet_spoke(kubelet);
        if let Some(id) = id {
            self.verdict(id, told.outcome, kubelet, told.asked);
        }
        match told.pid {
            Some(_) if told.apart => self.kubelets.spoke_apart(kubelet),
            None if !told.follows_links => self.kubelet_is_unseen(),
            Some(_) | None => {}
        }
    }

    fn kubelet_spoke(&mut self, kubelet: Option<Process>) {
        self.kubelets.told(self.now());
        let root = self.settings.kubelet_root();
        // With a directory that is named by itself, nothing tells of the root.
        if self.layout.kubelet_dir().starts_with(root) {
            self.called_in = Some(root.to_owned());
        }
        if let Some(kubelet) = kubelet {
            self.watch_kubelet(kubelet);
        }
        // A kubelet shows that it has started before it speaks: seen the other way round, the sign
        // would end the registration that it has just made.
        self.look_at_signs();
    }

    fn verdict(
        &mut self,
        id: &DriverId,
        outcome: Outcome,
        kubelet: Option<Process>,
        asked: Option<KubeletAsking>,
    ) {
        // The registration came through the link as it is now, or does not count.
        self.look_at_link(id);
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        match outcome {
            Outcome::Registered => {
                entry.tally.registrations += 1;
                entry.last_error = None;
                let (through, told) =
                    asked.map_or((None, None), |KubeletAsking { through, told }| {
                        let endpoint = told.endpoint.into();
                        let versions = told.supported_versions;
                        (through, Some(AdvertisedInfo { endpoint, versions }))
                    });
                let event = Event::KubeletRegistered {
                    kubelet,
                    through,
                    told,
                };
                self.apply(id, event);
                let entry = self.entries.get(id);
                // Through the link as it is now, and so through the directory as it is now.
                if entry.is_some_and(|entry| entry.driver.is_registered()) {
                    self.kubelets.sees_its_directory();
                }
            }
            Outcome::Rejected(error) => {
                entry.tally.rejections += 1;
                entry.last_error = Some(error.clone());
                self.apply(id, Event::KubeletRejected(kubelet, error));
            }
        }
    }

    /// A kubelet before 1.25 ignores links when it starts, and this one's start will not be seen. What
    /// it finds in its directory has to be a socket then, where that can be had.
    fn kubelet_is_unseen(&mut self) {
        if !self.kubelets.went_unseen() {
            return;
        }
        self.changed = true;
        if !self.layout.one_directory() {
            tracing::warn!("{UNSEEN_KUBELET}");
            return;
        }
        tracing::info!(
            "the kubelet's process and its start cannot be seen from here, and it may ignore links when it starts: it gets a socket in the place of each link"
        );
        let ids: Vec<DriverId> = self.entries.keys().cloned().collect();
        for id in ids {
            self.apply(&id, Event::Reannounce(UNSEEN));
            self.tick(&id);
        }
    }

    /// Notes that the driver was tried, and says once when it goes and when it is back.
    fn tried(&mut self, id: &DriverId, trouble: Option<&DriverError>) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.tried = true;
        match (trouble, entry.lost_since) {
            (Some(trouble), None) if entry.driver.answer().is_some() => {
                entry.lost_since = Some(Instant::now());
                let csi_socket = entry.settings.csi_socket.display();
                if let DriverError::Exposed { exposure, .. } = trouble {
                    // It runs: what is to be looked at is the directory.
                    let mend = exposure.mend();
                    tracing::warn!(driver = %id, %csi_socket, "{id}: {trouble}; it will not be published again after a restart of the kubelet: {mend}");
                    return;
                }
                let message_id = message_id::DRIVER_LOST;
                tracing::warn!(message_id, driver = %id, %csi_socket, "{id}: the driver is gone: {trouble}");
            }
            (None, Some(since)) => {
                entry.lost_since = None;
                let seconds = since.elapsed().as_secs_f32();
                tracing::info!(driver = %id, "{id}: the driver is back after {seconds:.1} s");
            }
            _ => {}
        }
    }
}

pub(super) fn tell(reporter: &mpsc::UnboundedSender<Report>, report: Report) {
    // The supervisor is gone only when the process ends.
    if reporter.send(report).is_err() {
        tracing::debug!("nobody listens to reports any more");
    }
}
