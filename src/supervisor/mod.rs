//! Runs every driver: feeds what happens into the state machines and carries out what they say.
//!
//! One task owns all of it. Contacts, registration desks and watchers of processes run beside it
//! and send [`Report`]s; nothing else changes a driver's state.

mod cause;
mod commands;
mod discovery;
mod effects;
mod exposure;
mod lease;
mod observe;
mod output;
mod removals;
mod renaming;
mod reports;
mod runner;
mod runtime;
mod shutdown;
mod startup;
pub(crate) mod state_file;
mod status;
#[cfg(test)]
mod tests;
mod timers;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::discovery::Discovery;
pub(crate) use self::discovery::found_now;
use self::lease::Leased;
use self::removals::Removals;
use self::reports::{Report, tell};
use self::runner::{Followed, Runner};
pub(crate) use self::startup::names_of;
use self::status::StatusBoard;
use self::timers::Schedule;
use crate::api::command::{Commands, Outcome};
use crate::api::metrics::Metrics;
use crate::api::snapshot::Snapshots;
use crate::config::{Listen, Settings};
use crate::csi::limiter::ConcurrencyLimiter;
use crate::csi::monitor::Monitor;
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::{RuntimeDir, RuntimeError};
use crate::disk::sweep::Unclaimed;
use crate::disk::watch::{WatchEvent, Watcher};
use crate::driver::file_state::Pace;
use crate::driver::{Calling, Event};
use crate::kubelet::known::KnownKubelets;
use crate::os::clock::Moment;
use crate::os::memory;
use crate::systemd::notify::Notifier;

/// How soon systemd is told again what it had no room for: many units start with us at a boot.
const TELL_AGAIN: Duration = Duration::from_millis(50);
/// The slow look at everything, for what inotify cannot see.
const RESYNC: Duration = Duration::from_secs(30);
/// The same where inotify has no watch for us, or a file system does not let us do what is due.
const POLL: Duration = Duration::from_secs(1);
/// tokio keeps timers in slots of this length. One that is at the start of a slot wakes us twice, any
/// other one three times.
const SLOT: Duration = Duration::from_millis(4096);
/// How often drivers are asked again although nothing happened: one may hang with its connection
/// open.
const CHECK: Duration = Duration::from_secs(300);

/// How long nobody has called or answered when memory is given back.
const QUIET: Duration = Duration::from_millis(200);

/// A driver's id, shared by everything that speaks of it.
pub(crate) type DriverId = Arc<str>;

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
    entries: BTreeMap<DriverId, Runner>,
    /// Drivers that are asked while we still begin, until they have an entry.
    early_monitors: BTreeMap<DriverId, Leased<Monitor>>,
    /// Which driver serves under a name.
    names: HashMap<DriverName, DriverId>,
    schedule: Schedule,
    discovery: Discovery,
    watcher: Watcher<Subject>,
    reach: Reach,
    turns: ConcurrencyLimiter,
    kubelets: KnownKubelets,
    reporter: mpsc::UnboundedSender<Report>,
    reports: mpsc::UnboundedReceiver<Report>,
    /// Where the state is written; none where no runtime directory can be had.
    runtime: Option<RuntimeDir>,
    /// Why the runtime directory that was deleted is not made again.
    runtime_trouble: Option<String>,
    /// Another instance has it.
    evicted: Option<RuntimeError>,
    /// The root of the kubelet that last told us how a registration went.
    called_in: Option<PathBuf>,
    /// Links that were left to other instances, until their driver proves to be ours.
    unowned_links: Vec<Unclaimed>,
    unsaved: bool,
    /// KnownKubelets that wait for their answer until the state is written.
    unanswered: Vec<oneshot::Sender<()>>,
    /// The state could not be written the last time.
    save_failing: bool,
    leftovers: Removals,
    /// What was to go and was not there.
    hidden: Removals,
    notifier: Notifier,
    metrics: Metrics,
    ready: bool,
    /// A configuration that was refused, for STATUS.
    refusal: Option<String>,
    /// Tells of each slow look.
    looks: watch::Sender<()>,
    /// Where HTTP is wanted.
    listen: watch::Sender<Option<Listen>>,
    /// Why it is not served there.
    http_trouble: Option<String>,
    /// How often registry_dir and the kubelet's directory became one, or two, of late.
    layout_pace: Pace,
    /// When that is followed, if it is not at once.
    next_layout: Option<Moment>,
    board: StatusBoard,
    changed: bool,
    /// Outcomes of commands, for the clients that wait for them.
    outcomes: Vec<(oneshot::Sender<Outcome>, Outcome)>,
    next_resync: Moment,
    next_check: Moment,
    /// When it is quiet, if it is not.
    quiet_at: Option<Moment>,
}

impl Supervisor {
    /// Sends requests to the supervisor.
    pub(crate) fn commands(&self) -> Commands {
        let reporter = self.reporter.clone();
        Commands::new(move |request| tell(&reporter, Report::Request(request)))
    }

    /// The state after each turn.
    pub(crate) fn snapshots(&self) -> Snapshots {
        self.board.readers()
    }

    /// Changes with each slow look at everything, for those who have something to look at too.
    pub(crate) fn looks(&self) -> watch::Receiver<()> {
        self.looks.subscribe()
    }

    /// Where HTTP is to be served, told anew with each reload.
    pub(crate) fn listen(&self) -> watch::Receiver<Option<Listen>> {
        self.listen.subscribe()
    }

    /// What is measured, for those who show it.
    pub(crate) fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// Another instance has taken the runtime directory.
    pub(crate) async fn run(
        mut self,
        mut orders: mpsc::Receiver<Order>,
    ) -> Result<(), RuntimeError> {
        if !self.is_ready() {
            self.ask_for_time();
        }
        loop {
            let wake = self.finish_turn();
            if let Some(taken) = self.evicted.take() {
                return Err(self.make_way(taken).await);
            }
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
        // What another instance has taken up is not ours to withdraw.
        self.hold_runtime();
        match self.evicted.take() {
            Some(taken) => drop(self.make_way(taken).await),
            None => self.end().await,
        }
        Ok(())
    }

    fn now(&self) -> Moment {
        Moment::default() + self.started.elapsed()
    }

    fn tick(&mut self, id: &DriverId) {
        self.tick_with(id, self.kubelets.any());
    }

    /// Whether a kubelet is there costs a look at /proc, and is the same for all who are ticked at
    /// once.
    fn tick_with(&mut self, id: &DriverId, kubelet_there: bool) {
        let entry = self.entries.get(id);
        let speaks_apart = |pid| self.kubelets.speak_apart(pid);
        let calling = if entry.is_some_and(|entry| entry.endpoint.is_calling(speaks_apart)) {
            Calling::This
        } else if self.kubelets.is_busy(self.now()) {
            Calling::Others
        } else {
            Calling::Nobody
        };
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
        let due = self.schedule.due(now);
        let kubelet_there = !due.is_empty() && self.kubelets.any();
        for id in due {
            self.tick_with(&id, kubelet_there);
        }
        if self.next_layout.is_some_and(|at| at <= now) {
            self.look_at_layout();
        }
        if now >= self.next_resync {
            self.notifier.alive();
            if !self.ready {
                self.ask_for_time();
            }
            self.watcher.resync();
            self.look_at(WatchEvent::Everything);
            self.remove_leftovers();
            self.hold_runtime();
            if self.evicted.is_some() {
                return;
            }
            self.looks.send_replace(());
            if now >= self.next_check {
                self.next_check = now + CHECK;
                self.entries
                    .values()
                    .for_each(|entry| entry.contact.check());
            }
            self.plan_resync();
        }
        if self.quiet_at.is_some_and(|at| at <= now) {
            self.quiet_at = None;
            memory::give_back();
        }
    }

    fn plan_resync(&mut self) {
        // A directory that cannot be made is no more urgent than the slow look.
        let writable = self.runtime_trouble.is_none();
        let overdue = (self.save_failing && writable) || !self.leftovers.is_empty();
        let slow = if overdue || self.watcher.unwatched_paths().next().is_some() {
            POLL
        } else {
            RESYNC
        };
        let interval = self
            .notifier
            .life_sign_interval()
            .map_or(slow, |life| life.min(slow));
        let due = self.now() + interval;
        self.next_resync = if interval > SLOT {
            due.rounded_down(SLOT)
        } else {
            due
        };
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
        [
            self.schedule.next(),
            departure,
            readiness,
            notice,
            self.quiet_at,
            self.next_layout,
        ]
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
