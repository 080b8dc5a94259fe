//! The inputs of the main loop, and what follows from each.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::discovery::CandidateSeen;
use super::{DriverId, QUIET, Runner, RunnerKey, Supervisor, Timer, Work};
use crate::api::command::Request;
use crate::csi::error::DriverError;
use crate::csi::monitor::MonitorReport;
use crate::disk::layout::Layout;
use crate::driver::{AdvertisedInfo, Event};
use crate::grpc::proto::control::Cause;
use crate::kubelet::endpoint::session::{GetInfoCall, KubeletCall, Notification, Outcome};
use crate::kubelet::volumes::NodeVolumes;
use crate::os::process::Process;
use crate::os::task::Task;
use crate::systemd::journal::message_id;

/// How many inputs a turn takes: one write of the state file serves all of them.
const BATCH: usize = 256;

/// A message to the main loop. The key of a runner that is gone, or an old generation of its monitor,
/// makes it void.
pub(super) enum Input {
    Monitor(RunnerKey, u64, MonitorReport),
    Endpoint(RunnerKey, KubeletCall),
    /// The process that was at our place has gone.
    OwnerGone(RunnerKey),
    KubeletEnded(Process),
    /// The directories in the plugins_dir that is named.
    Plugins(PathBuf, io::Result<Option<BTreeSet<DriverId>>>),
    /// What is in a directory that had no csi.sock.
    Candidate(DriverId, PathBuf, CandidateSeen),
    /// The volumes in use.
    Volumes(Arc<NodeVolumes>),
    Request(Request),
}

pub(super) fn send(sender: &mpsc::UnboundedSender<Input>, input: Input) {
    // The supervisor is gone only when the process ends.
    if sender.send(input).is_err() {
        tracing::debug!("the main loop has ended");
    }
}

impl Supervisor {
    pub(super) fn take_batch(&mut self, first: Input) {
        self.take(first);
        for _ in 1..BATCH {
            self.do_work();
            let Ok(input) = self.inputs.try_recv() else {
                return;
            };
            self.take(input);
        }
    }

    fn take(&mut self, input: Input) {
        if matches!(input, Input::Monitor(..) | Input::Endpoint(..)) {
            let quiet = self.now() + QUIET;
            self.timers.set(Timer::Quiet, Some(quiet));
        }
        match input {
            Input::Monitor(key, generation, report) => {
                let runner = self.runners.get_mut(&key);
                if let Some(runner) = runner.filter(|runner| runner.generation == generation) {
                    let csi_socket = runner.csi_seen.clone();
                    let event = runner.reported(report, &self.layout);
                    if runner.csi_seen != csi_socket {
                        self.state_file.changed();
                    }
                    self.push(key, event);
                }
            }
            Input::Endpoint(key, KubeletCall::GetInfo) => {
                if let Some(runner) = self.runners.get(&key) {
                    runner.endpoint.took_asked();
                    self.push(key, Event::KubeletAsked);
                }
            }
            Input::Endpoint(key, KubeletCall::Notify(told)) => self.kubelet_told(key, *told),
            Input::OwnerGone(key) => self.queue.push(key, Work::Look),
            Input::KubeletEnded(process) => {
                tracing::info!(pid = process.pid, "the kubelet has ended");
                self.kubelets.ended(process);
                self.push_to_all(&Event::KubeletEnded(process));
            }
            Input::Plugins(directory, seen) => self.plugins_seen(&directory, seen),
            Input::Candidate(id, socket, seen) => self.candidate_seen(&id, &socket, seen),
            Input::Request(Request::Command(command, reply)) => {
                self.carry_out(command, reply);
            }
            Input::Volumes(volumes) => self.volumes_seen(&volumes),
            Input::Request(Request::HttpTrouble(why)) => {
                self.troubles.http = why.map(|why| format!("http is not served: {why}"));
            }
        }
    }

    /// A kubelet said how the registration went. It has its answer when that is saved, also where the
    /// driver that it speaks of was removed.
    fn kubelet_told(&mut self, key: RunnerKey, told: Notification) {
        self.state_file.answer_after_save(told.heard);
        let kubelet = told.pid.and_then(Process::behind);
        self.kubelet_called(kubelet);
        if let Some(runner) = self.runners.get_mut(&key) {
            let event = runner.registration_ended(told.outcome, kubelet, told.asked);
            // The registration came through the link as it is now, or does not count.
            self.queue.push(key, Work::Look);
            self.push(key, event);
        }
        if told.apart {
            self.kubelets.called_apart(kubelet);
        }
    }

    fn kubelet_called(&mut self, kubelet: Option<Process>) {
        self.kubelets.told(self.now());
        let root = self.settings.kubelet_root();
        // With a directory that is named by itself, nothing tells of the root.
        if self.layout.plugins_registry().starts_with(root) {
            self.kubelets.called_in = Some(root.to_owned());
        }
        if let Some(kubelet) = kubelet {
            self.watch_kubelet(kubelet);
        }
        // A kubelet creates its sockets before it calls: seen the other way round, the start would end
        // the registration that it has just made.
        self.look_at_start_sockets();
    }

    pub(super) fn watch_kubelet(&mut self, process: Process) {
        let sender = self.sender.clone();
        self.kubelets.called(process, || {
            Task::spawn(async move {
                process.ended().await;
                send(&sender, Input::KubeletEnded(process));
            })
        });
    }
}

impl Runner {
    fn registration_ended(
        &mut self,
        outcome: Outcome,
        kubelet: Option<Process>,
        asked: Option<GetInfoCall>,
    ) -> Event {
        match outcome {
            Outcome::Registered => {
                self.counts.registrations += 1;
                self.last_error = None;
                let (through, told) = asked.map(|asked| (asked.through, asked.told)).unzip();
                Event::KubeletRegistered {
                    kubelet,
                    through: through.flatten(),
                    told: told.map(|told| AdvertisedInfo {
                        endpoint: told.endpoint.into(),
                        versions: told.supported_versions,
                    }),
                }
            }
            Outcome::Rejected(error) => {
                self.counts.rejections += 1;
                self.last_error = Some(error.clone());
                Event::KubeletRejected(kubelet, error)
            }
        }
    }

    /// The monitor's report as an event.
    fn reported(&mut self, report: MonitorReport, layout: &Layout) -> Event {
        let (answer, socket) = match report {
            MonitorReport::Answered(answer, socket) => (answer, Some(socket)),
            MonitorReport::Changed(answer) => (answer, None),
            MonitorReport::Silent(error) => return self.silent(&error),
        };
        self.without_node_service = false;
        self.unclaimed = None;
        self.note_try(None);
        // The answer can be used, unless its name is too long for our paths.
        if let Err(too_long) = layout.check(&answer.name) {
            let why = too_long.to_string();
            self.note_error(why.clone());
            self.silence = Cause::Unspecified;
            return Event::DriverSilent(why);
        }
        self.clear_error();
        // A driver that has run on since before we started has not come back.
        let has_run_on = socket.is_none_or(|socket| {
            let before = self.csi_seen.replace(socket);
            let is_same = before == self.csi_seen;
            // It restarted so fast that no question went unanswered.
            let restarted = !is_same && before.is_some() && self.driver.answer().is_some();
            self.counts.disconnects += u64::from(restarted);
            is_same && !self.driver.is_silent()
        });
        if has_run_on {
            Event::DriverChanged(answer)
        } else {
            Event::DriverAnswered(answer)
        }
    }

    /// The driver does not answer, or not yet.
    fn silent(&mut self, error: &DriverError) -> Event {
        let why = error.to_string();
        self.note_try(Some(error));
        self.without_node_service = matches!(error, DriverError::NoNodeService);
        self.silence = error.cause();
        if error.is_error() {
            self.note_error(why.clone());
        }
        if matches!(error, DriverError::Slow { .. }) {
            // It was reached: a socket without a listener is no trouble any more.
            self.clear_error();
            Event::DriverSlow(why)
        } else if error.is_taken(self.csi_seen.as_ref()) {
            Event::DriverTaken(why)
        } else if matches!(error, DriverError::Exposed { .. }) {
            Event::DriverRefused(why)
        } else {
            Event::DriverSilent(why)
        }
    }

    /// Notes that the driver was tried, and says once when it goes and when it is back.
    fn note_try(&mut self, error: Option<&DriverError>) {
        let id = &self.id;
        self.tried = true;
        match (error, self.lost_since) {
            (Some(error), None) if self.driver.answer().is_some() => {
                self.lost_since = Some(Instant::now());
                let csi_socket = self.settings.csi_socket.display();
                if let DriverError::Exposed { exposure, .. } = error {
                    // The driver runs: the operator has to look at the directory.
                    let fix = exposure.fix(id);
                    tracing::warn!(driver = %id, %csi_socket, "{id}: {error}; it will not be published again after a restart of the kubelet: {fix}");
                    return;
                }
                self.counts.disconnects += 1;
                let message_id = message_id::DRIVER_LOST;
                tracing::warn!(message_id, driver = %id, %csi_socket, "{id}: the driver is gone: {error}");
            }
            (None, Some(since)) => {
                self.lost_since = None;
                let seconds = since.elapsed().as_secs_f32();
                tracing::info!(driver = %id, "{id}: the driver is back after {seconds:.1} s");
            }
            _ => {}
        }
    }
}
