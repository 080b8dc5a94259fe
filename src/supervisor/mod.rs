//! Runs every driver: feeds inputs into the state machines and carries out what they ask for.
//!
//! One task owns all of it. Monitors, registration endpoints and watchers of processes run beside it
//! and send an [`Input`]; nothing else changes a driver. A turn of the loop takes inputs, works until
//! nothing is left to do, and then tells the outcome: state file, kubelets, snapshot, systemd, clients.

mod cluster_word;
mod commands;
mod departure;
mod discovery;
mod files;
mod inputs;
mod lost_drivers;
mod names;
mod observe;
mod reload;
pub(crate) mod renaming;
mod runner;
pub(crate) mod saved_state;
mod shutdown;
mod startup;
mod state_file;
mod status;
pub(crate) mod taken_off;
mod timers;
mod turn;
mod volume_looks;

use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::discovery::Discovery;
pub(crate) use self::discovery::IDLE_FIX;
use self::files::in_use;
use self::inputs::{Input, send};
use self::names::Names;
use self::runner::{EarlyMonitors, Runner, RunnerKey, Runners};
use self::saved_state::SavedTime;
use self::state_file::StateFile;
use self::status::{StatusBoard, Troubles};
use self::timers::{Timer, Timers};
use self::turn::{Work, WorkQueue};
use self::volume_looks::VolumeLooks;
use crate::api::command::{CommandResult, Commands};
use crate::api::metrics::Metrics;
use crate::api::snapshot::Snapshots;
use crate::config::{Listen, Settings};
use crate::csi::discover::DriverId;
use crate::csi::limiter::ConcurrencyLimiter;
use crate::disk::layout::Layout;
use crate::disk::reach::Reach;
use crate::disk::removals::Removals;
use crate::disk::runtime_dir::{RuntimeDir, RuntimeError};
use crate::disk::watch::{WatchEvent, Watcher};
use crate::kubelet::known::KnownKubelets;
use crate::kubelet::volumes::VolumeReader;
use crate::os::clock::Moment;
use crate::os::memory;
use crate::systemd::notify::Notifier;

/// The slow look at everything, for changes that inotify cannot see.
const RESYNC: Duration = Duration::from_secs(30);
/// The same where inotify has no watch for us, or a file system does not let us do what is due.
const POLL: Duration = Duration::from_secs(1);
/// A deadline on a 4,096 ms boundary of tokio's timer wheel costs two wake-ups, any other three.
const SLOT: Duration = Duration::from_millis(4096);
/// How often drivers are asked again although nothing happened: a driver may hang with its connection
/// open.
const CHECK: Duration = Duration::from_secs(300);
/// Memory is given back after so long without a call or an answer.
const QUIET: Duration = Duration::from_millis(200);

/// The subjects of the watcher, in the order in which they are looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Driver(RunnerKey),
    /// The driver's socket and link.
    Files(RunnerKey),
    /// A directory in plugins_dir that has no csi.sock yet.
    Candidate(DriverId),
    /// A socket that a kubelet creates when it starts.
    StartSocket(usize),
    /// plugins_dir, and each name in it.
    Plugins,
}

/// An order to the main loop from outside the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Stop,
    Reload,
}

/// Reads the configuration again, as the command line of this process has it.
pub(crate) type Reread = Box<dyn Fn() -> Result<Settings, String> + Send>;

/// All drivers, and the parts that they share.
pub(crate) struct Supervisor {
    settings: Settings,
    reread: Reread,
    started: Instant,
    sender: mpsc::UnboundedSender<Input>,
    inputs: mpsc::UnboundedReceiver<Input>,
    runners: Runners,
    last_key: u64,
    early_monitors: EarlyMonitors,
    queue: WorkQueue,
    names: Names,
    timers: Timers,
    layout: Layout,
    kubelets: KnownKubelets,
    discovery: Discovery,
    removals: Removals,
    state_file: StateFile,
    board: StatusBoard,
    notifier: Notifier,
    /// READY was sent.
    ready: bool,
    troubles: Troubles,
    /// When a configuration was last accepted.
    config_accepted: Timestamp,
    /// When verify last reported what it found in the cluster.
    cluster_checked: Option<SavedTime>,
    watcher: Watcher<Subject>,
    reach: Reach,
    volumes: VolumeReader,
    volume_looks: VolumeLooks,
    limiter: ConcurrencyLimiter,
    metrics: Metrics,
    /// Changes with each slow look.
    looks: watch::Sender<()>,
    /// Where HTTP is to be served.
    listen: watch::Sender<Option<Listen>>,
    /// Outcomes of commands, for the clients that wait for them.
    outcomes: Vec<(oneshot::Sender<CommandResult>, CommandResult)>,
    next_check: Moment,
}

impl Supervisor {
    fn new(settings: Settings, reread: Reread, runtime: Option<RuntimeDir>) -> Supervisor {
        let layout = settings.layout();
        let reach = Reach::now();
        let (sender, inputs) = mpsc::unbounded_channel();
        Supervisor {
            kubelets: KnownKubelets::new(settings.kubelet_root(), layout.plugins_registry()),
            layout,
            started: Instant::now(),
            sender,
            inputs,
            runners: Runners::new(),
            last_key: 0,
            early_monitors: EarlyMonitors::new(),
            queue: WorkQueue::default(),
            names: Names::default(),
            timers: Timers::default(),
            discovery: Discovery::default(),
            removals: Removals::default(),
            state_file: StateFile::new(runtime),
            board: StatusBoard::default(),
            notifier: Notifier::new(),
            ready: false,
            troubles: Troubles::default(),
            config_accepted: Timestamp::now(),
            cluster_checked: None,
            watcher: Watcher::new(reach.clone()),
            volumes: VolumeReader::new(settings.kubelet_roots(), reach.clone()),
            volume_looks: VolumeLooks::default(),
            reach,
            limiter: ConcurrencyLimiter::new(),
            metrics: Metrics::new(),
            looks: watch::channel(()).0,
            listen: watch::channel(settings.http.listen.clone()).0,
            outcomes: Vec::new(),
            next_check: Moment::default() + CHECK,
            settings,
            reread,
        }
    }

    /// Sends requests to the supervisor.
    pub(crate) fn commands(&self) -> Commands {
        let sender = self.sender.clone();
        Commands::new(move |request| send(&sender, Input::Request(request)))
    }

    /// The state after each turn.
    pub(crate) fn snapshots(&self) -> Snapshots {
        self.board.readers()
    }

    /// Changes with each slow look at everything, for servers that have a socket to look at too.
    pub(crate) fn looks(&self) -> watch::Receiver<()> {
        self.looks.subscribe()
    }

    /// Where HTTP is to be served; changes with a reload.
    pub(crate) fn listen(&self) -> watch::Receiver<Option<Listen>> {
        self.listen.subscribe()
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Reads which volumes are in use.
    pub(crate) fn volumes(&self) -> VolumeReader {
        self.volumes.clone()
    }

    /// Runs until it is told to stop.
    ///
    /// # Errors
    /// Another instance has taken the runtime directory.
    pub(crate) async fn run(
        mut self,
        mut orders: mpsc::Receiver<Order>,
    ) -> Result<(), RuntimeError> {
        self.ask_for_time();
        loop {
            let wake = self.finish_turn();
            if let Some(taken) = self.state_file.taken() {
                self.make_way().await;
                return Err(taken);
            }
            tokio::select! {
                biased;
                order = orders.recv() => match order {
                    // A refusal is in the journal and in STATUS; there is no client to tell.
                    Some(Order::Reload) => self.ask_to_reload(None),
                    Some(Order::Stop) | None => break,
                },
                Some(input) = self.inputs.recv() => self.take_batch(input),
                change = self.watcher.changed() => self.look_at(change),
                () = sleep_until(wake) => self.wake(),
            }
        }
        // Drivers that another instance looks after are not ours to withdraw.
        self.hold_runtime();
        match self.state_file.is_taken() {
            true => self.make_way().await,
            false => self.end().await,
        }
        Ok(())
    }

    fn now(&self) -> Moment {
        Moment::default() + self.started.elapsed()
    }

    fn wake(&mut self) {
        for timer in self.timers.due(self.now()) {
            match timer {
                Timer::Driver(key) => self.queue.push(key, Work::Tick),
                Timer::Departure(key) => self.check_departure(key),
                Timer::Resync => self.resync(),
                Timer::Quiet => {
                    self.timers.set(Timer::Quiet, None);
                    memory::give_back();
                }
                // The end of each turn does what they are for.
                Timer::Ready | Timer::Systemd => {}
            }
        }
    }

    fn resync(&mut self) {
        self.notifier.alive();
        self.ask_for_time();
        self.watcher.resync();
        self.look_at(WatchEvent::Everything);
        self.work();
        self.removals.retry(in_use(&self.runners, &self.layout));
        self.hold_runtime();
        if self.state_file.is_taken() {
            return;
        }
        self.looks.send_replace(());
        let now = self.now();
        if now >= self.next_check {
            self.next_check = now + CHECK;
            self.runners
                .values()
                .for_each(|runner| runner.monitor.check());
        }
        self.plan_resync();
    }

    fn plan_resync(&mut self) {
        let slow = if self.is_overdue() || self.watcher.unwatched_paths().next().is_some() {
            POLL
        } else {
            RESYNC
        };
        let life_sign = self.notifier.life_sign_interval();
        let interval = life_sign.map_or(slow, |life_sign| life_sign.min(slow));
        let mut due = self.now() + interval;
        if interval > SLOT {
            due = due.rounded_down(SLOT);
        }
        self.timers.set(Timer::Resync, Some(due));
    }

    /// A write or a removal has to be tried again soon.
    fn is_overdue(&self) -> bool {
        self.state_file.is_failing() || self.removals.has_leftovers()
    }
}

#[cfg(test)]
mod tests;
