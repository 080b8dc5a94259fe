//! Runs every driver: feeds what happens into the state machines and carries out what they say.
//!
//! One task owns all of it. Contacts, registration desks and watchers of processes run beside it
//! and send [`Report`]s; nothing else changes a driver's state.

mod beginning;
mod changes;
mod discovery;
mod effects;
mod ending;
mod entry;
mod kubelets;
mod leftovers;
mod requests;
mod schedule;
mod telling;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::discovery::Discovery;
pub(crate) use self::discovery::found_now;
use self::entry::Entry;
use self::kubelets::Kubelets;
use self::leftovers::Leftovers;
pub(crate) use self::requests::{Hand, Request};
use self::schedule::Schedule;
use crate::config::{Listen, Settings};
use crate::csi::contact::Heard;
use crate::csi::inquiry::Trouble;
use crate::csi::turns::Turns;
use crate::descriptors::Descriptors;
use crate::driver::Event;
use crate::identity::Identity;
use crate::journal::message_id;
use crate::kubelet::Process;
use crate::link::layout::Layout;
use crate::link::sweep::Unclaimed;
use crate::metrics::Metrics;
use crate::moment::Moment;
use crate::name::DriverName;
use crate::registration::desk::{Call, Outcome};
use crate::systemd::notifier::Notifier;
use crate::watch::{Change, Watcher};

/// How soon systemd is told again what it had no room for: many units start with us at a boot.
const TELL_AGAIN: Duration = Duration::from_millis(50);
/// The slow look at everything, for what inotify cannot see.
const RESYNC: Duration = Duration::from_secs(30);
/// The same where inotify has no watch for us, or a file system does not let us do what is due.
const POLL: Duration = Duration::from_secs(1);
/// How often drivers are asked again although nothing happened: one may hang with its connection
/// open.
const CHECK: Duration = Duration::from_secs(300);
/// Reports taken in before anything is written down: one write serves many.
const BATCH: usize = 256;

/// A driver's id, shared by everything that speaks of it.
pub(crate) type DriverId = Arc<str>;

/// What the tasks beside the supervisor tell it.
pub(crate) enum Report {
    Heard(DriverId, Heard),
    Called(DriverId, Call),
    /// Whoever was at our place has gone.
    OwnerEnded(DriverId),
    KubeletEnded(Process),
    Request(Request),
    /// Why HTTP is not served where it should be; none when it is.
    Http(Option<String>),
}

/// What the watcher watches for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Driver(DriverId),
    Socket(DriverId),
    Link(DriverId),
    Sign(usize),
    /// plugins_dir, and each name in it.
    Plugins,
    /// A directory in it that has no csi.sock yet.
    Candidate(DriverId),
}

/// What ends the main loop or is asked of it from outside the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Stop,
    Reload,
}

/// Reads the configuration again, as the command line of this process has it.
pub(crate) type Reread = Box<dyn Fn() -> Result<Settings, String> + Send>;

/// All drivers, and what they need to run.
pub(crate) struct Supervisor {
    settings: Settings,
    reread: Reread,
    layout: Layout,
    started: Instant,
    entries: BTreeMap<DriverId, Entry>,
    /// Which driver serves under a name.
    names: HashMap<DriverName, DriverId>,
    schedule: Schedule,
    discovery: Discovery,
    descriptors: Descriptors,
    watcher: Watcher<Subject>,
    turns: Turns,
    kubelets: Kubelets,
    reporter: mpsc::UnboundedSender<Report>,
    reports: mpsc::UnboundedReceiver<Report>,
    /// Where the state is written; none where no runtime directory can be had.
    state: Option<PathBuf>,
    /// Links that were left to other instances, until their driver proves to be ours.
    unclaimed: Vec<Unclaimed>,
    unsaved: bool,
    /// Kubelets that wait for their answer until the state is written.
    unanswered: Vec<oneshot::Sender<()>>,
    /// The state could not be written the last time.
    save_failing: bool,
    leftovers: Leftovers,
    notifier: Notifier,
    metrics: Metrics,
    ready: bool,
    /// A configuration that was refused, for STATUS.
    refusal: Option<String>,
    /// Where HTTP is wanted.
    listen: watch::Sender<Option<Listen>>,
    /// Why it is not served there.
    http_trouble: Option<String>,
    changes: watch::Sender<u64>,
    changed: bool,
    next_resync: Moment,
    next_check: Moment,
}

impl Supervisor {
    /// Sends requests to the supervisor.
    pub(crate) fn reporter(&self) -> mpsc::UnboundedSender<Report> {
        self.reporter.clone()
    }

    /// Where HTTP is to be served, now and after each reload.
    pub(crate) fn listen(&self) -> watch::Receiver<Option<Listen>> {
        self.listen.subscribe()
    }

    /// What is measured, for those who show it.
    pub(crate) fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Counts up whenever the status changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Runs until it is told to stop.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        if !self.is_ready() {
            self.notifier
                .more_time(self.settings.service.ready_timeout + RESYNC);
        }
        loop {
            self.finish_turn();
            let wake = self.started + (self.next_wake() - Moment::default());
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    // A refusal is in the journal and in STATUS; there is nobody else to tell.
                    Some(Order::Reload) => drop(self.reload()),
                    Some(Order::Stop) | None => break,
                },
                Some(report) = self.reports.recv() => self.take_batch(report),
                change = self.watcher.changed() => self.look_at(change),
                () = sleep_until(wake) => self.wake(),
            }
        }
        self.end().await;
    }

    fn now(&self) -> Moment {
        Moment::default() + self.started.elapsed()
    }

    fn take_batch(&mut self, first: Report) {
        self.take(first);
        for _ in 1..BATCH {
            let Ok(report) = self.reports.try_recv() else {
                return;
            };
            self.take(report);
        }
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Heard(id, Heard::Answered(answer)) => {
                let event = match self.layout.check(&answer.name) {
                    Ok(()) => Event::DriverAnswered(answer),
                    Err(too_long) => {
                        self.note_error(&id, too_long.to_string());
                        Event::DriverSilent(too_long.to_string())
                    }
                };
                self.heard(&id, None);
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.without_node_service = false;
                }
                self.apply(&id, event);
            }
            Report::Heard(id, Heard::Silent(trouble)) => {
                let why = trouble.to_string();
                if !trouble.is_absence() {
                    self.note_error(&id, why.clone());
                }
                self.heard(&id, Some(&why));
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.without_node_service = matches!(trouble, Trouble::NoNodeService);
                }
                self.apply(&id, Event::DriverSilent(why));
            }
            Report::Called(id, Call::Asked { pid }) => {
                if let Some(entry) = self.entries.get(&id) {
                    entry.desk.took_asked();
                }
                self.apply(&id, Event::KubeletAsked(pid.and_then(Process::of)));
            }
            Report::Called(
                id,
                Call::Told {
                    outcome,
                    pid,
                    through,
                    heard,
                },
            ) => {
                self.told(&id, outcome, pid, through);
                self.unanswered.push(heard);
            }
            Report::OwnerEnded(id) => {
                self.look_at_socket(&id);
                self.look_at_link(&id);
            }
            Report::KubeletEnded(process) => {
                tracing::info!(pid = process.pid, "the kubelet has ended");
                self.kubelets.ended(process);
                self.apply_to_all(&Event::KubeletEnded(process));
            }
            Report::Request(request) => self.answer(request),
            Report::Http(trouble) => {
                self.http_trouble = trouble;
                self.changed = true;
            }
        }
    }

    /// A kubelet said how the registration went.
    fn told(
        &mut self,
        id: &DriverId,
        outcome: Outcome,
        pid: Option<u32>,
        through: Option<Identity>,
    ) {
        self.kubelets.told(self.now());
        let kubelet = pid.and_then(Process::of);
        if let Some(kubelet) = kubelet {
            self.watch_kubelet(kubelet);
        }
        // A kubelet shows that it has started before it speaks: seen the other way round, the sign
        // would end the registration that it has just made.
        self.look_at_signs();
        // The registration came through the link as it is now, or does not count.
        self.look_at_link(id);
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        match outcome {
            Outcome::Registered => {
                entry.tally.registrations += 1;
                entry.last_error = None;
                self.apply(id, Event::KubeletRegistered { kubelet, through });
            }
            Outcome::Rejected(error) => {
                entry.tally.rejections += 1;
                entry.last_error = Some(error.clone());
                self.apply(id, Event::KubeletRejected(kubelet, error));
            }
        }
    }

    /// Notes that the driver was tried, and says once when it goes and when it is back.
    fn heard(&mut self, id: &DriverId, why: Option<&str>) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.tried = true;
        match (why, entry.lost_since) {
            (Some(why), None) if entry.driver.answer().is_some() => {
                entry.lost_since = Some(Instant::now());
                let csi_socket = entry.settings.csi_socket.display();
                let message_id = message_id::DRIVER_LOST;
                tracing::warn!(message_id, driver = %id, %csi_socket, "{id}: the driver is gone: {why}");
            }
            (None, Some(since)) => {
                entry.lost_since = None;
                let seconds = since.elapsed().as_secs_f32();
                tracing::info!(driver = %id, "{id}: the driver is back after {seconds:.1} s");
            }
            _ => {}
        }
    }

    fn note_error(&mut self, id: &DriverId, error: String) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.last_error = Some(error);
        }
    }

    fn tick(&mut self, id: &DriverId) {
        let kubelet_there = self.kubelets.any();
        let called = self
            .entries
            .get(id)
            .is_some_and(|entry| entry.desk.is_calling());
        let calling = called || self.kubelets.is_busy(self.now());
        self.apply(
            id,
            Event::Ticked {
                kubelet_there,
                calling,
            },
        );
    }

    fn wake(&mut self) {
        let now = self.now();
        for id in self.schedule.due(now) {
            self.tick(&id);
        }
        if now >= self.next_resync {
            self.notifier.alive();
            self.watcher.resync();
            self.look_at(Change::Everything);
            self.remove_leftovers();
            if now >= self.next_check {
                self.next_check = now + CHECK;
                self.entries
                    .values()
                    .for_each(|entry| entry.contact.check());
            }
            self.plan_resync();
        }
    }

    fn plan_resync(&mut self) {
        let overdue = self.save_failing || !self.leftovers.is_empty();
        let slow = if overdue || self.watcher.polled().next().is_some() {
            POLL
        } else {
            RESYNC
        };
        let interval = self
            .notifier
            .life_sign_interval()
            .map_or(slow, |life| life.min(slow));
        self.next_resync = self.now() + interval;
    }

    /// Something has to be tried again soon.
    fn hurry_resync(&mut self) {
        self.next_resync = self.next_resync.min(self.now() + POLL);
    }

    fn next_wake(&self) -> Moment {
        let readiness =
            (!self.ready).then(|| Moment::default() + self.settings.service.ready_timeout);
        let departure = self.discovery.departures.next();
        let notice = self.notifier.owes().then(|| self.now() + TELL_AGAIN);
        [self.schedule.next(), departure, readiness, notice]
            .into_iter()
            .flatten()
            .fold(self.next_resync, Moment::min)
    }

    /// Applies an event to one driver, carries out what follows, and shows what has changed.
    fn apply(&mut self, id: &DriverId, event: Event) {
        self.perform_all(id, event);
        self.refresh(id);
    }

    fn apply_to_all(&mut self, event: &Event) {
        let ids: Vec<DriverId> = self.entries.keys().cloned().collect();
        for id in ids {
            self.apply(&id, event.clone());
        }
    }
}

fn tell(reporter: &mpsc::UnboundedSender<Report>, report: Report) {
    // The supervisor is gone only when the process ends.
    if reporter.send(report).is_err() {
        tracing::debug!("nobody listens to reports any more");
    }
}
