//! How it begins: what an earlier run left is taken up, and every driver is waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::yield_now;
use tokio::time::Instant;

use super::discovery::{Discovery, found_now};
use super::removals::Removals;
use super::runner::Runner;
use super::status::StatusBoard;
use super::timers::Schedule;
use super::{CHECK, DriverId, Leased, Report, Reread, Subject, Supervisor, tell};
use crate::api::metrics::{Account, Metrics};
use crate::config::Settings;
use crate::csi::limiter::ConcurrencyLimiter;
use crate::csi::monitor::Monitor;
use crate::csi::query::DriverQuery;
use crate::disk::identity::Identity;
use crate::disk::layout::{Layout, LinkAlias};
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::RuntimeDir;
use crate::disk::sweep::{Ours, sweep, sweep_link};
use crate::disk::watch::Watcher;
use crate::driver::file_state::Pace;
use crate::driver::{Event, Record};
use crate::kubelet::endpoint::session::Endpoint;
use crate::kubelet::known::KnownKubelets;
use crate::kubelet::watched::Watched;
use crate::os::clock::Moment;
use crate::os::process::Process;
use crate::os::rlimit::raise_open_files;
use crate::os::task::Task;
use crate::supervisor::state_file::{SavedState, Written};
use crate::systemd::notify::Notifier;

/// The directories are others than before: what stands in the old ones goes, as by a reload.
fn leave(
    layout: &Layout,
    records: BTreeMap<String, Written>,
    names: &BTreeSet<DriverName>,
) -> BTreeMap<String, Written> {
    let ours = Ours {
        names: names.clone(),
        kept: BTreeSet::new(),
    };
    // What may be another instance's there is none of ours.
    drop(sweep(layout, &ours));
    let by_hand = |(id, written): (String, Written)| Some((id, written.by_hand()?));
    records.into_iter().filter_map(by_hand).collect()
}

/// The names of the drivers that are configured or were found. One whose name is not known yet mostly
/// has its id for a name.
pub(crate) fn names_of(
    settings: &Settings,
    found: Vec<String>,
) -> impl Iterator<Item = DriverName> {
    let drivers = settings.drivers.iter();
    let given = drivers.map(|(id, driver)| match &driver.name {
        Some(name) => name.to_string(),
        None => id.clone(),
    });
    given.chain(found).flat_map(DriverName::try_from)
}

impl Supervisor {
    /// Takes up what an earlier run left, and starts to wait for every driver.
    ///
    /// The drivers are asked first, and have all the time for their answer that we take for the
    /// rest. What they say is heard when we run.
    pub(crate) async fn start(
        settings: Settings,
        reread: Reread,
        runtime: Option<RuntimeDir>,
    ) -> Supervisor {
        let layout = settings.layout();
        let reach = Reach::now();
        let (reporter, reports) = mpsc::unbounded_channel();
        let mut supervisor = Supervisor {
            kubelets: KnownKubelets::new(settings.kubelet_root(), layout.kubelet_dir()),
            layout,
            started: Instant::now(),
            entries: BTreeMap::new(),
            early_monitors: BTreeMap::new(),
            names: HashMap::new(),
            schedule: Schedule::default(),
            discovery: Discovery::default(),
            watcher: Watcher::new(reach.clone()),
            reach,
            reporter,
            reports,
            runtime,
            runtime_trouble: None,
            evicted: None,
            called_in: None,
            unowned_links: Vec::new(),
            unsaved: false,
            turns: ConcurrencyLimiter::new(),
            unanswered: Vec::new(),
            save_failing: false,
            leftovers: Removals::new(),
            hidden: Removals::new(),
            notifier: Notifier::new(),
            metrics: Metrics::new(),
            ready: false,
            refusal: None,
            looks: watch::channel(()).0,
            listen: watch::channel(settings.http.listen.clone()).0,
            http_trouble: None,
            layout_pace: Pace::default(),
            next_layout: None,
            board: StatusBoard::default(),
            outcomes: Vec::new(),
            changed: true,
            next_resync: Moment::default(),
            next_check: Moment::default() + CHECK,
            quiet_at: None,
            settings,
            reread,
        };
        supervisor.watch_plugins();
        // What keeps plugins_dir from being read is told when it is looked at for drivers.
        let found = found_now(&supervisor.settings, &supervisor.reach).unwrap_or_default();
        let known: BTreeSet<String> = supervisor.settings.drivers.keys().cloned().collect();
        raise_open_files(known.len() + found.len());
        for id in known.iter().chain(&found).map(|id| DriverId::from(&**id)) {
            let contact = supervisor.meet(&id);
            supervisor.early_monitors.insert(id, contact);
        }
        // Each time they get one step further: connected, greeted, asked.
        yield_now().await;
        let (records, names) = supervisor.recall();
        yield_now().await;
        supervisor.sweep(&records, names, found);
        yield_now().await;
        supervisor.watch_signs();
        // Of two with one name, the one that has it keeps it.
        let is_new = |id: &&String| {
            records
                .get(*id)
                .is_none_or(|written| written.record.link.is_none())
        };
        let others = records.keys().filter(|id| !known.contains(*id));
        let mut ids: Vec<&String> = known.iter().chain(others).collect();
        ids.sort_by_key(is_new);
        for id in ids {
            let written = records.get(id);
            supervisor.add(id, written.map(|written| &written.record));
            if let Some(entry) = supervisor.entries.get_mut(&**id) {
                entry.csi_seen = written.and_then(|written| written.csi_seen.clone());
            }
        }
        // What happened between the first look and the watch would go unseen.
        supervisor.look_at_signs();
        supervisor.look_at_plugins();
        supervisor.forget_those_who_left();
        supervisor.plan_resync();
        supervisor
    }

    /// Begins to wait for a driver and to ask it. The watch comes first: nothing goes unseen
    /// between the two.
    fn meet(&mut self, id: &DriverId) -> Leased<Monitor> {
        let settings = self.settings.driver(id);
        self.watcher
            .follow(&settings.csi_socket, &Subject::Driver(id.clone()));
        let account = Account::new(self.metrics.operations.clone());
        let discovered = !self.settings.drivers.contains_key(&**id);
        let mut query = DriverQuery::new(&settings, discovered, &self.reach);
        query.observer = Box::new(move |name, call| account.count(name, call));
        let (heard, turns) = (self.reporter.clone(), self.turns.clone());
        Leased::start(id, |lease| {
            Monitor::start(query, turns, settings.retry_max, move |news| {
                tell(&heard, Report::Monitor(lease.clone(), news));
            })
        })
    }

    /// Drivers that were found when we looked first, and not when we looked again.
    fn forget_those_who_left(&mut self) {
        for id in std::mem::take(&mut self.early_monitors).into_keys() {
            let socket = self.settings.driver(&id).csi_socket;
            self.watcher.unfollow(&socket, &Subject::Driver(id));
        }
    }

    /// What an earlier run wrote down and still is to be looked after, and the names of all the
    /// drivers that it had.
    fn recall(&mut self) -> (BTreeMap<String, Written>, BTreeSet<DriverName>) {
        let before = self.runtime.as_ref().map(RuntimeDir::state);
        let Some(state) = before.and_then(|path| SavedState::load(&path)) else {
            return Default::default();
        };
        self.called_in = state.called_in;
        if let Some(watched) = state.watched
            && state.layout.as_ref() == Some(&self.layout)
        {
            self.recall_kubelet(watched, &state.signs);
        }
        let mut records = state.drivers;
        let names = records
            .values()
            .filter_map(|written| written.record.name.clone());
        let names = names.collect();
        if let Some(left) = state.layout.filter(|before| *before != self.layout) {
            records = leave(&left, records, &names);
        }
        let mut records = self.rename_records(records);
        records.retain(|id, written| self.looks_after(id, written));
        // A kubelet in another pid namespace has no pid whose end could be seen: that another one
        // has started is all that tells.
        if self.kubelets.started_since(&state.signs) {
            for written in records.values_mut() {
                written
                    .record
                    .registration
                    .take_if(|registered| registered.kubelet.is_none());
            }
        }
        (records, names)
    }

    /// Whether the kubelet that runs sees the directory that is there now. It may have been replaced
    /// while we were away.
    fn recall_kubelet(&mut self, watched: Watched, signs: &BTreeMap<PathBuf, Identity>) {
        if let Some(kubelet) = self.kubelets.recall(watched, signs) {
            self.watch_kubelet(kubelet);
        }
        if self.kubelets.is_blind() {
            self.warn_of_blindness();
        }
    }

    /// Begins with a driver.
    pub(super) fn add(&mut self, id: &str, record: Option<&Record>) {
        let id: DriverId = id.into();
        let early_monitors = self.early_monitors.remove(&id);
        let contact = early_monitors.unwrap_or_else(|| self.meet(&id));
        self.metrics.registering.expect(&id);
        let endpoint = self.new_desk(&id);
        let mut entry = Runner::new(self.settings.driver(&id), contact, endpoint);
        entry.found = !self.settings.drivers.contains_key(&*id);
        if let Some(record) = record {
            self.restore(&mut entry, record);
        }
        self.entries.insert(id.clone(), entry);
        self.look_at_exposure(&id);
        if self.kubelets.is_blind() {
            self.apply(&id, Event::DirectoryReplaced);
        }
        self.tick(&id);
    }

    /// Goes on with a driver whose settings have changed. A kubelet that calls at that moment does
    /// not notice, and what was counted still counts.
    pub(super) fn reconfigure_driver(&mut self, id: &DriverId) {
        let settings = self.settings.driver(id);
        let found = !self.settings.drivers.contains_key(&**id);
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        self.watcher
            .unfollow(&entry.settings.csi_socket, &Subject::Driver(id.clone()));
        let (contact, now) = (self.meet(id), self.now());
        if let Some(entry) = self.entries.get_mut(id) {
            entry.reconfigure(settings, contact, found, now);
        }
        self.look_at_exposure(id);
        // What was in the way before may not be by the new settings.
        self.look_at_socket(id);
        self.look_at_link(id);
        self.tick(id);
    }

    fn new_desk(&self, id: &DriverId) -> Leased<Arc<Endpoint>> {
        let reporter = self.reporter.clone();
        Leased::start(id, |lease| {
            Arc::new(Endpoint::new(move |call| {
                tell(&reporter, Report::Called(lease.clone(), call));
            }))
        })
    }

    /// Takes up a record as far as it still holds.
    pub(super) fn restore(&mut self, entry: &mut Runner, record: &Record) {
        if let Some(name) = &record.name {
            self.recall_unseen_kubelet(name, record.slot);
        }
        let link = record
            .name
            .as_ref()
            .and_then(|name| self.standing_link(name, record.slot));
        // Of the kubelets without a pid, those that have ended were left out of the records.
        entry
            .driver
            .restore(record, link, Process::is_running, self.now());
        if let Some(kubelet) = entry.driver.kubelet() {
            self.watch_kubelet(kubelet);
        }
    }

    /// Removes what is left of drivers of ours.
    fn sweep(
        &mut self,
        records: &BTreeMap<String, Written>,
        mut names: BTreeSet<DriverName>,
        found: Vec<String>,
    ) {
        names.extend(names_of(&self.settings, found));
        let kept = records
            .values()
            .map(|written| &written.record)
            .filter_map(|record| record.name.as_ref().map(|name| (name, record)));
        let mut paths = BTreeSet::new();
        for (name, record) in kept {
            paths.insert(self.layout.socket(name));
            paths.insert(self.layout.link(name, record.slot));
        }
        let ours = Ours { names, kept: paths };
        let swept = sweep(&self.layout, &ours);
        self.unowned_links = swept.unowned_links;
        self.leftovers.extend(swept.failed);
    }

    /// A driver of ours has this name, so that what stood under it is ours, too. Two links must not
    /// lead to the socket when it listens: the one that the driver is to have stays.
    pub(super) fn claim(&mut self, name: &DriverName, slot: LinkAlias) {
        let kept = self.layout.link(name, slot);
        for left in self.unowned_links.extract_if(.., |left| left.name == *name) {
            if left.link != kept {
                sweep_link(&self.layout, &left.link);
            }
        }
    }

    pub(super) fn watch_signs(&mut self) {
        for (number, path) in self.kubelets.signs().into_iter().enumerate() {
            self.watcher.follow(&path, &Subject::Sign(number));
        }
    }

    pub(super) fn watch_kubelet(&mut self, process: Process) {
        let reporter = self.reporter.clone();
        self.kubelets.spoke(process, || {
            Task::spawn(async move {
                process.ended().await;
                tell(&reporter, Report::KubeletEnded(process));
            })
        });
    }
}
