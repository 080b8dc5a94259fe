//! Runs every driver: feeds what happens into the state machines and carries out what they say.
//!
//! One task owns all of it. Contacts, registration desks and watchers of processes run beside it
//! and send [`Report`]s; nothing else changes a driver's state.

mod changes;
mod effects;
mod ending;
mod entry;
mod kubelets;
mod requests;
mod schedule;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep_until};

use self::entry::Entry;
use self::kubelets::Kubelets;
pub(crate) use self::requests::{Hand, Request};
use self::schedule::Schedule;
use crate::config::{ReadyWhen, RootDir, Settings};
use crate::csi::contact::{Contact, Heard};
use crate::csi::inquiry::Inquiry;
use crate::driver::phase::Phase;
use crate::driver::{Event, Record};
use crate::identity::Identity;
use crate::kubelet::Process;
use crate::link::layout::Layout;
use crate::link::sweep::sweep;
use crate::moment::Moment;
use crate::name::DriverName;
use crate::registration::desk::{Call, Desk, Outcome};
use crate::state::State;
use crate::systemd::Notifier;
use crate::watch::{Change, Watcher};

/// The slow look at everything, for what inotify cannot see.
const RESYNC: Duration = Duration::from_secs(30);
/// The same where inotify has no watch for us.
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
}

/// What the watcher watches for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    Driver(DriverId),
    Socket(DriverId),
    Link(DriverId),
    Sign(usize),
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
    watcher: Watcher<Subject>,
    kubelets: Kubelets,
    reporter: mpsc::UnboundedSender<Report>,
    reports: mpsc::UnboundedReceiver<Report>,
    /// Where the state is written; none where no runtime directory can be had.
    state: Option<PathBuf>,
    unsaved: bool,
    /// Kubelets that wait for their answer until the state is written.
    unanswered: Vec<oneshot::Sender<()>>,
    /// The state could not be written the last time.
    save_failing: bool,
    notifier: Notifier,
    ready: bool,
    /// A configuration that was refused, for STATUS.
    refusal: Option<String>,
    changes: watch::Sender<u64>,
    changed: bool,
    next_resync: Moment,
    next_check: Moment,
}

impl Supervisor {
    /// Takes up what an earlier run left, and starts to wait for every driver.
    pub(crate) fn start(settings: Settings, reread: Reread, state: Option<PathBuf>) -> Supervisor {
        let layout = Layout::of(&settings);
        let (reporter, reports) = mpsc::unbounded_channel();
        let mut supervisor = Supervisor {
            kubelets: Kubelets::new(root(&settings), layout.kubelet_dir()),
            layout,
            started: Instant::now(),
            entries: BTreeMap::new(),
            names: HashMap::new(),
            schedule: Schedule::default(),
            watcher: Watcher::new(),
            reporter,
            reports,
            state,
            unsaved: false,
            unanswered: Vec::new(),
            save_failing: false,
            notifier: Notifier::new(),
            ready: false,
            refusal: None,
            changes: watch::channel(0).0,
            changed: true,
            next_resync: Moment::default(),
            next_check: Moment::default() + CHECK,
            settings,
            reread,
        };
        let records = supervisor
            .state
            .as_deref()
            .map(State::load)
            .unwrap_or_default();
        supervisor.sweep(&records);
        supervisor.watch_signs();
        let ids: Vec<String> = supervisor.settings.drivers.keys().cloned().collect();
        for id in ids {
            supervisor.add(&id, records.get(&id));
        }
        supervisor.plan_resync();
        supervisor
    }

    /// Sends requests to the supervisor.
    pub(crate) fn reporter(&self) -> mpsc::UnboundedSender<Report> {
        self.reporter.clone()
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
                    Some(Order::Reload) => self.reload_and_log(),
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

    fn add(&mut self, id: &str, record: Option<&Record>) {
        let id: DriverId = id.into();
        let settings = self.settings.driver(&id);
        let (heard, called) = (self.reporter.clone(), self.reporter.clone());
        let (teller, caller) = (id.clone(), id.clone());
        let contact = Contact::start(Inquiry::new(&settings), settings.retry_max, move |news| {
            tell(&heard, Report::Heard(teller.clone(), news));
        });
        let desk = Desk::new(move |call| tell(&called, Report::Called(caller.clone(), call)));
        self.watcher
            .follow(&settings.csi_socket, &Subject::Driver(id.clone()));
        let mut entry = Entry::new(settings, contact, Arc::new(desk));
        if let Some(record) = record {
            self.restore(&mut entry, record);
        }
        self.entries.insert(id.clone(), entry);
        self.tick(&id);
    }

    /// Takes up a record as far as it still holds.
    fn restore(&mut self, entry: &mut Entry, record: &Record) {
        let kubelet = record
            .registration
            .as_ref()
            .and_then(|registration| registration.kubelet);
        // A kubelet without a pid cannot be seen to have ended; what it does when it starts can.
        let runs = kubelet.is_none_or(Process::is_running);
        let link = record.name.as_ref().and_then(|name| {
            let slot = record
                .link
                .as_ref()
                .map(|link| link.slot)
                .unwrap_or_default();
            self.standing_link(name, slot)
        });
        entry.driver.restore(record, link, runs, self.now());
        if let Some(kubelet) = entry.driver.kubelet() {
            self.watch_kubelet(kubelet);
        }
    }

    fn sweep(&self, records: &BTreeMap<String, Record>) {
        let kept = records
            .iter()
            .filter(|(id, _)| self.settings.drivers.contains_key(*id));
        let kept = kept.filter_map(|(_, record)| record.name.as_ref().map(|name| (name, record)));
        let mut paths = BTreeSet::new();
        for (name, record) in kept {
            paths.insert(self.layout.socket(name));
            if let Some(link) = &record.link {
                paths.insert(self.layout.link(name, link.slot));
            }
        }
        sweep(&self.layout, &paths);
    }

    fn watch_signs(&mut self) {
        for (number, path) in self.kubelets.signs().into_iter().enumerate() {
            self.watcher.follow(&path, &Subject::Sign(number));
        }
    }

    fn watch_kubelet(&mut self, process: Process) {
        let reporter = self.reporter.clone();
        self.kubelets.spoke(process, || {
            crate::task::Task::spawn(async move {
                process.ended().await;
                tell(&reporter, Report::KubeletEnded(process));
            })
        });
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
                self.tried(&id);
                self.apply(&id, event);
            }
            Report::Heard(id, Heard::Silent(trouble)) => {
                let why = trouble.to_string();
                if !trouble.is_absence() {
                    self.note_error(&id, why.clone());
                }
                self.tried(&id);
                self.apply(&id, Event::DriverSilent(why));
            }
            Report::Called(id, Call::Asked) => {
                if let Some(entry) = self.entries.get(&id) {
                    entry.desk.took_asked();
                }
                self.apply(&id, Event::KubeletAsked);
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
        let kubelet = pid.and_then(Process::of);
        if let Some(kubelet) = kubelet {
            self.watch_kubelet(kubelet);
        }
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

    fn tried(&mut self, id: &DriverId) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.tried = true;
        }
    }

    fn note_error(&mut self, id: &DriverId, error: String) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.last_error = Some(error);
        }
    }

    fn tick(&mut self, id: &DriverId) {
        let kubelet_there = self.kubelets.any();
        let calling = self
            .entries
            .get(id)
            .is_some_and(|entry| entry.desk.is_calling());
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
        let slow = if self.watcher.polled().next().is_some() {
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

    fn next_wake(&self) -> Moment {
        let readiness =
            (!self.ready).then(|| Moment::default() + self.settings.service.ready_timeout);
        [self.schedule.next(), readiness]
            .into_iter()
            .flatten()
            .fold(self.next_resync, Moment::min)
    }

    /// After everything that came in at once: write, answer, tell.
    fn finish_turn(&mut self) {
        if std::mem::take(&mut self.unsaved) {
            self.save();
        }
        for heard in self.unanswered.drain(..) {
            if heard.send(()).is_err() {
                tracing::debug!("a kubelet left before it had its answer");
            }
        }
        if !self.ready
            && (self.is_ready() || self.started.elapsed() >= self.settings.service.ready_timeout)
        {
            self.ready = true;
            self.notifier.ready(&self.status_line());
            self.changed = true;
        }
        if std::mem::take(&mut self.changed) {
            self.notifier.status(&self.status_line());
            self.changes.send_modify(|count| *count += 1);
        }
    }

    fn save(&mut self) {
        let Some(path) = &self.state else { return };
        let records = self
            .entries
            .iter()
            .map(|(id, entry)| (id.to_string(), entry.driver.record()));
        match State::new(records.collect()).save(path) {
            Ok(()) if std::mem::take(&mut self.save_failing) => {
                tracing::info!(path = %path.display(), "the state can be written again");
            }
            Ok(()) => {}
            Err(error) => {
                if !std::mem::replace(&mut self.save_failing, true) {
                    tracing::warn!(%error, path = %path.display(), "cannot write the state; a restart may cost a registration");
                }
            }
        }
    }

    fn is_ready(&self) -> bool {
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

    /// One line of truth.
    fn status_line(&self) -> String {
        if let Some(refusal) = &self.refusal {
            return format!("the changed configuration was refused, the old one stays: {refusal}");
        }
        let all = self.entries.len();
        if all == 0 {
            return "no drivers configured".to_owned();
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

    fn refresh(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        entry.desk.offer(entry.offer());
        entry
            .desk
            .link(entry.driver.links().map(|(_, _, link)| link.clone()));
        entry.retired.retain(|task| !task.is_finished());
        self.schedule.set(id, entry.driver.deadline());
        if let Some(trouble) = entry.driver.trouble() {
            entry.last_error = Some(trouble);
        }
        let (phase, reason) = (entry.driver.phase(), entry.driver.reason());
        let moved = phase != entry.shown.phase;
        if moved {
            entry.shown.since = Timestamp::now();
        }
        if moved || reason != entry.shown.reason {
            entry.shown.phase = phase;
            entry.shown.reason = reason;
            self.changed = true;
            entry.log(id);
        }
        self.follow_places(id);
        if moved {
            self.offer_the_name(id);
        }
    }
}

fn tell(reporter: &mpsc::UnboundedSender<Report>, report: Report) {
    // The supervisor is gone only when the process ends.
    if reporter.send(report).is_err() {
        tracing::debug!("nobody listens to reports any more");
    }
}

fn root(settings: &Settings) -> &std::path::Path {
    match &settings.kubelet.root_dir {
        RootDir::Path(root) => root,
        RootDir::Auto => settings
            .kubelet
            .registry_dir
            .parent()
            .unwrap_or(&settings.kubelet.registry_dir),
    }
}
