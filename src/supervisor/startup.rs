//! The start: takes up what an earlier run left, and waits for every driver.

use std::collections::{BTreeMap, BTreeSet};

use tokio::task::yield_now;

use super::files::{existing_link, link_place};
use super::runner::{Runner, RunnerKey};
use super::saved_state::{Origin, SavedDriver};
use super::{DriverId, Input, Reread, Subject, Supervisor, Work, send};
use crate::api::metrics::Account;
use crate::config::{DriverSettings, Settings};
use crate::csi::discover::{found_now, names_of};
use crate::csi::monitor::Monitor;
use crate::csi::query::DriverQuery;
use crate::disk::name::DriverName;
use crate::disk::runtime_dir::RuntimeDir;
use crate::disk::sweep::{Ours, Unclaimed, linked_since_boot, sweep};
use crate::disk::watch::Watcher;
use crate::driver::{Event, Record};
use crate::kubelet::endpoint::session::Endpoint;
use crate::os::process::Process;
use crate::os::rlimit::raise_open_files;
use crate::systemd::journal::message_id;

/// What state.json has of the drivers.
#[derive(Default)]
struct Recalled {
    /// The drivers of an earlier run that are still to be looked after.
    saved: BTreeMap<String, SavedDriver>,
    /// The names of all the drivers that it had.
    names: BTreeSet<DriverName>,
    /// The drivers that the configuration does not have any more.
    lost: BTreeMap<String, SavedDriver>,
    /// There is a state of this boot.
    has_state: bool,
}

impl Supervisor {
    /// Takes up what an earlier run left, and starts to wait for every driver.
    ///
    /// The drivers are asked first, and have all the time for their answer that the rest takes. Their
    /// answers wait in the queue until the main loop runs.
    pub(crate) async fn start(
        settings: Settings,
        reread: Reread,
        runtime: Option<RuntimeDir>,
    ) -> Supervisor {
        let mut supervisor = Supervisor::new(settings, reread, runtime);
        supervisor.watch_plugins();
        // An error that keeps plugins_dir from being read is logged by the look for drivers below.
        let found = found_now(&supervisor.settings, &supervisor.reach).unwrap_or_default();
        let known: BTreeSet<String> = supervisor.settings.drivers.keys().cloned().collect();
        raise_open_files(known.len() + found.len());
        for id in known.iter().chain(&found).map(|id| DriverId::from(&**id)) {
            let key = supervisor.new_key();
            let monitor = supervisor.monitor(key, 0, &id);
            supervisor.early_monitors.insert(id, (key, monitor));
        }
        // Each time the monitors get one step further: connected, greeted, asked.
        yield_now().await;
        let Recalled {
            mut saved,
            names,
            lost,
            has_state,
        } = supervisor.recall().await;
        let lost = supervisor.keep_lost(lost, &saved).await;
        yield_now().await;
        saved.extend(
            lost.iter()
                .map(|(id, lost)| (id.clone(), lost.saved.clone())),
        );
        let unclaimed = supervisor.sweep(&saved, names, found, has_state).await;
        yield_now().await;
        supervisor.each_start_socket(Watcher::follow);
        // Of two drivers with one name, the driver that has it keeps it.
        let is_new = |id: &&String| {
            let saved = saved.get(*id);
            saved.is_none_or(|saved| saved.record.link.is_none())
        };
        let others = saved.keys().filter(|id| !known.contains(*id));
        let mut ids: Vec<&String> = known.iter().chain(others).collect();
        ids.sort_by_key(is_new);
        for id in ids {
            let saved = saved.get(id);
            let key = match lost.get(id) {
                Some(lost) => supervisor.add_lost(id, lost),
                None => supervisor.add(id, saved.map(|saved| &saved.record)),
            };
            if let Some((runner, saved)) = supervisor.runners.get_mut(&key).zip(saved) {
                runner.resume(saved);
            }
        }
        for left in unclaimed {
            supervisor.keep_unclaimed(left);
        }
        // What happened between the first look and the watch would go unseen.
        supervisor.look_at_start_sockets();
        supervisor.look_at_plugins();
        supervisor.work();
        supervisor.drop_early_monitors();
        supervisor.plan_resync();
        supervisor
    }

    /// Starts to wait for a driver and to ask it. The watch comes first, so that no change between the
    /// two goes unseen.
    pub(super) fn monitor(&mut self, key: RunnerKey, generation: u64, id: &str) -> Monitor {
        let is_discovered = self.origin(id) == Origin::Discovery;
        self.monitor_with(key, generation, &self.settings.driver(id), is_discovered)
    }

    pub(super) fn monitor_with(
        &mut self,
        key: RunnerKey,
        generation: u64,
        settings: &DriverSettings,
        is_discovered: bool,
    ) -> Monitor {
        self.watcher
            .follow(&settings.csi_socket, &Subject::Driver(key));
        let account = Account::new(self.metrics.operations.clone());
        let mut query = DriverQuery::new(settings, is_discovered, &self.reach);
        query.observer = Box::new(move |name, call| account.count(name, call));
        let (sender, limiter) = (self.sender.clone(), self.limiter.clone());
        Monitor::start(query, limiter, settings.retry_max, move |report| {
            send(&sender, Input::Monitor(key, generation, report));
        })
    }

    /// Drivers that the first look at plugins_dir found, and the second did not.
    fn drop_early_monitors(&mut self) {
        for (id, (key, _)) in std::mem::take(&mut self.early_monitors) {
            let socket = self.settings.driver(&id).csi_socket;
            self.watcher.unfollow(&socket, &Subject::Driver(key));
        }
    }

    async fn recall(&mut self) -> Recalled {
        let Some(state) = self.state_file.load() else {
            return Recalled::default();
        };
        self.kubelets.called_in = state.called_in;
        self.cluster_checked = state.cluster_checked;
        let layout = &self.layout;
        if state.layout.as_ref() == Some(layout)
            && let Some(watched) = state.watched
        {
            // The kubelet's directory may have been replaced while the daemon was away.
            if let Some(kubelet) = self.kubelets.recall(watched, &state.start_sockets) {
                self.watch_kubelet(kubelet);
            }
            if self.kubelets.is_blind() {
                self.warn_of_blindness();
            }
        }
        let mut saved = state.drivers;
        let names = saved.values().filter_map(|saved| saved.record.name.clone());
        let names: BTreeSet<DriverName> = names.collect();
        if let Some(old) = state.layout.filter(|old| *old != self.layout) {
            // The directories have changed: what is left in the old ones goes, as by a reload. Files that
            // may be another instance's stay, and those of drivers in use.
            let ours = Ours {
                names: names.clone(),
                in_use: self.in_use(names.clone()).await,
                ..Ours::default()
            };
            for Unclaimed { name, link } in sweep(&old, &ours).links_in_use {
                let (link, message_id) = (link.display(), message_id::KEPT_IN_USE);
                tracing::warn!(message_id, driver = %name, "{name}: its volumes are in use, and {link} stays, although the directories have changed: remove it when the pods are gone");
            }
            let by_hand = |(id, saved): (String, SavedDriver)| Some((id, saved.by_hand()?));
            saved = saved.into_iter().filter_map(by_hand).collect();
        }
        let (saved, mut lost) = self.rename_saved(saved);
        let is_kept = |(id, saved): &(String, SavedDriver)| self.looks_after(id, saved);
        let (mut saved, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            saved.into_iter().partition(is_kept);
        lost.extend(gone);
        // A kubelet in another pid namespace has no pid whose end could be seen: only the start of the
        // next kubelet tells of its end.
        if self.kubelets.started_since(&state.start_sockets) {
            for saved in saved.values_mut() {
                let registration = &mut saved.record.registration;
                registration.take_if(|registered| registered.kubelet.is_none());
            }
        }
        Recalled {
            saved,
            names,
            lost,
            has_state: true,
        }
    }

    /// Starts with a driver.
    pub(super) fn add(&mut self, id: &str, record: Option<&Record>) -> RunnerKey {
        let id: DriverId = id.into();
        let (key, monitor) = self.early_monitors.remove(&id).unwrap_or_else(|| {
            let key = self.new_key();
            (key, self.monitor(key, 0, &id))
        });
        let settings = (self.settings.driver(&id), self.origin(&id));
        self.add_with(key, id, settings, monitor, record);
        key
    }

    pub(super) fn add_with(
        &mut self,
        key: RunnerKey,
        id: DriverId,
        (settings, origin): (DriverSettings, Origin),
        monitor: Monitor,
        record: Option<&Record>,
    ) {
        self.metrics.registering.expect(&id);
        let sender = self.sender.clone();
        let endpoint = Endpoint::new(move |call| send(&sender, Input::Endpoint(key, call)));
        let mut runner = Runner::new(id, settings, origin, monitor, endpoint);
        if let Some(record) = record {
            self.restore(&mut runner, record);
        }
        runner.look_at_exposure(&self.reach);
        self.runners.insert(key, runner);
        if self.kubelets.is_blind() {
            self.push(key, Event::DirectoryReplaced);
        }
        self.queue.push(key, Work::Tick);
    }

    /// Takes up a record as far as it still holds.
    fn restore(&mut self, runner: &mut Runner, record: &Record) {
        let link = record
            .name
            .as_ref()
            .and_then(|name| existing_link(&link_place(&self.layout, name)));
        // Of the kubelets without a pid, those that have ended were left out of the records.
        let now = self.now();
        runner
            .driver
            .restore(record, link, Process::is_running, now);
        if let Some(kubelet) = runner.driver.kubelet() {
            self.watch_kubelet(kubelet);
        }
    }

    /// Removes what is left of drivers of ours. Without a state of this boot, nothing but the volumes in use
    /// tells that a kubelet holds a driver.
    async fn sweep(
        &mut self,
        saved: &BTreeMap<String, SavedDriver>,
        mut names: BTreeSet<DriverName>,
        found: Vec<String>,
        has_state: bool,
    ) -> Vec<Unclaimed> {
        names.extend(names_of(&self.settings, found));
        let layout = &self.layout;
        let records = saved.values().map(|saved| &saved.record);
        let places = records.filter_map(|record| Some(layout.places(record.name.as_ref()?)));
        let kept = places.flatten().collect();
        let unknown = match has_state {
            true => BTreeSet::new(),
            false => linked_since_boot(layout, &names),
        };
        let in_use = self.in_use(unknown).await;
        let ours = Ours {
            names,
            kept,
            in_use,
        };
        let mut swept = sweep(&self.layout, &ours);
        let links_in_use = std::mem::take(&mut swept.links_in_use);
        self.removals.add(swept);
        links_in_use
    }

    /// Those of the drivers whose volumes are in use, or not known. The volumes are read only if there are
    /// drivers: the daemon is to serve at once.
    async fn in_use(&self, mut names: BTreeSet<DriverName>) -> BTreeSet<DriverName> {
        if !names.is_empty() {
            let volumes = self.volumes.read().await;
            names.retain(|name| volumes.of(name).holds());
        }
        names
    }

    /// A driver of ours has a link, of which nothing tells whether a kubelet holds the driver, and its volumes are
    /// in use.
    fn keep_unclaimed(&mut self, left: Unclaimed) {
        let (link, name) = (left.link.display(), &left.name);
        let message_id = message_id::KEPT_IN_USE;
        tracing::warn!(message_id, driver = %name, "{name}: its volumes are in use, and {link} stays: a kubelet may have registered the driver through it");
        let is_it = |runner: &Runner| match &runner.settings.name {
            Some(pinned) => pinned == name,
            None => *runner.id == *name.as_str(),
        };
        let key = self.keys_where(is_it).first().copied();
        if let Some(runner) = key.and_then(|key| self.runners.get_mut(&key)) {
            runner.unclaimed = Some(left);
        }
    }
}
