//! How it begins: what an earlier run left is taken up, and every driver is waited for.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::discovery::Discovery;
use super::entry::Entry;
use super::kubelets::Kubelets;
use super::schedule::Schedule;
use super::{CHECK, DriverId, Report, Reread, Subject, Supervisor, tell};
use crate::config::Settings;
use crate::csi::contact::Contact;
use crate::csi::inquiry::Inquiry;
use crate::csi::turns::Turns;
use crate::descriptors::Descriptors;
use crate::driver::Record;
use crate::kubelet::Process;
use crate::link::layout::Layout;
use crate::link::sweep::sweep;
use crate::metrics::Metrics;
use crate::moment::Moment;
use crate::registration::Service;
use crate::registration::desk::Desk;
use crate::state::State;
use crate::systemd::notifier::Notifier;
use crate::task::Task;
use crate::watch::Watcher;

impl Supervisor {
    /// Takes up what an earlier run left, and starts to wait for every driver.
    pub(crate) fn start(settings: Settings, reread: Reread, state: Option<PathBuf>) -> Supervisor {
        let layout = Layout::of(&settings);
        let (reporter, reports) = mpsc::unbounded_channel();
        let mut supervisor = Supervisor {
            kubelets: Kubelets::new(settings.kubelet_root(), layout.kubelet_dir()),
            layout,
            started: Instant::now(),
            entries: BTreeMap::new(),
            names: HashMap::new(),
            schedule: Schedule::default(),
            discovery: Discovery::default(),
            descriptors: Descriptors::default(),
            watcher: Watcher::new(),
            reporter,
            reports,
            state,
            unsaved: false,
            turns: Turns::new(),
            unanswered: Vec::new(),
            save_failing: false,
            notifier: Notifier::new(),
            metrics: Metrics::new(),
            ready: false,
            refusal: None,
            listen: watch::channel(settings.http.listen.clone()).0,
            http_trouble: None,
            changes: watch::channel(0).0,
            changed: true,
            next_resync: Moment::default(),
            next_check: Moment::default() + CHECK,
            settings,
            reread,
        };
        supervisor.watch_plugins();
        let records = supervisor.recall();
        supervisor.sweep(&records);
        supervisor.watch_signs();
        let known: BTreeSet<String> = supervisor.settings.drivers.keys().cloned().collect();
        for id in known
            .iter()
            .chain(records.keys().filter(|id| !known.contains(*id)))
        {
            supervisor.add(id, records.get(id), None);
        }
        supervisor.look_at_plugins();
        supervisor.plan_resync();
        supervisor
    }

    /// What an earlier run wrote down.
    fn recall(&self) -> BTreeMap<String, Record> {
        let Some(state) = self.state.as_deref().and_then(State::load) else {
            return BTreeMap::new();
        };
        let mut records = state.drivers;
        records.retain(|id, record| {
            self.settings.drivers.contains_key(id)
                || self.has_plugin(id)
                || self.still_discovers(id, record)
        });
        // A kubelet in another pid namespace has no pid whose end could be seen: that another one
        // has started is all that tells.
        if self.kubelets.started_since(&state.signs) {
            for record in records.values_mut() {
                record
                    .registration
                    .take_if(|registered| registered.kubelet.is_none());
            }
        }
        records
    }

    pub(super) fn add(&mut self, id: &str, record: Option<&Record>, service: Option<Service>) {
        let id: DriverId = id.into();
        self.descriptors.make_room(self.entries.len() + 1);
        let settings = self.settings.driver(&id);
        let (heard, called) = (self.reporter.clone(), self.reporter.clone());
        let (teller, caller) = (id.clone(), id.clone());
        let found = !self.settings.drivers.contains_key(&*id);
        let operations = self.metrics.operations.clone();
        let inquiry = if found {
            Inquiry::found(&settings, operations)
        } else {
            Inquiry::new(&settings, operations)
        };
        let contact = Contact::start(
            inquiry,
            self.turns.clone(),
            settings.retry_max,
            move |news| {
                tell(&heard, Report::Heard(teller.clone(), news));
            },
        );
        let desk = Desk::new(move |call| tell(&called, Report::Called(caller.clone(), call)));
        self.watcher
            .follow(&settings.csi_socket, &Subject::Driver(id.clone()));
        let mut entry = Entry::new(settings, contact, Arc::new(desk));
        entry.service = service;
        entry.found = found;
        if let Some(record) = record {
            self.restore(&mut entry, record);
        }
        self.entries.insert(id.clone(), entry);
        self.tick(&id);
    }

    /// Takes up a record as far as it still holds.
    pub(super) fn restore(&mut self, entry: &mut Entry, record: &Record) {
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

    pub(super) fn sweep(&self, records: &BTreeMap<String, Record>) {
        let kept = records
            .values()
            .filter_map(|record| record.name.as_ref().map(|name| (name, record)));
        let mut paths = BTreeSet::new();
        for (name, record) in kept {
            paths.insert(self.layout.socket(name));
            paths.insert(self.layout.link(name, record.slot));
        }
        sweep(&self.layout, &paths);
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
