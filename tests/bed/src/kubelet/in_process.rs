//! The test kubelet on a thread of this process.

use std::ops::Deref;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::ledger::Ledger;
use super::reconciler;
use super::record::Event;
use super::settings::{Faults, Settings};
use super::world::World;
use crate::worker::Worker;

/// A kubelet that runs until it is stopped or dropped; its [`Ledger`] has everything it did.
pub struct TestKubelet {
    settings: Settings,
    ledger: Arc<Ledger>,
    faults: Arc<Mutex<Faults>>,
    worker: Option<Worker>,
}

impl TestKubelet {
    /// Starts it. When this returns, its sockets listen and, unless the watcher has a delay, it has
    /// watched and walked plugins_registry.
    pub fn start(settings: Settings) -> Self {
        Self::go_on(settings, Faults::default(), Ledger::new())
    }

    pub(super) fn go_on(settings: Settings, faults: Faults, ledger: Arc<Ledger>) -> Self {
        let mut kubelet = Self {
            settings,
            ledger,
            faults: Arc::new(Mutex::new(faults)),
            worker: None,
        };
        kubelet.begin();
        kubelet
    }

    /// Ends it at once, even during a call. API objects stay.
    pub fn stop(&mut self) {
        if self.worker.take().is_some() {
            self.ledger.write(Event::Stopped);
        }
    }

    /// Stops it if it runs, and starts it again.
    pub fn restart(&mut self) {
        self.stop();
        self.begin();
    }

    /// The same with other settings, such as another release.
    pub fn restart_as(&mut self, settings: Settings) {
        self.settings = settings;
        self.restart();
    }

    /// How it was started.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The directory that it watches.
    pub fn plugins_registry(&self) -> std::path::PathBuf {
        self.settings.plugins_registry()
    }

    /// Its root directory.
    pub fn root(&self) -> &Path {
        &self.settings.root
    }

    /// Switches faults on or off; they persist across restarts.
    pub fn fault(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.faults.lock().unwrap());
    }

    /// The present faults.
    pub fn faults(&self) -> Faults {
        self.faults.lock().unwrap().clone()
    }

    /// Removes a label from the node, as kubectl would.
    pub fn remove_label(&self, key: &str) {
        self.ledger.change_cluster(|cluster| {
            cluster.labels.remove(key);
        });
    }

    fn begin(&mut self) {
        let mark = self.ledger.mark();
        self.ledger.begin_generation();
        let settings = self.settings.clone();
        let ledger = Arc::clone(&self.ledger);
        let faults = Arc::clone(&self.faults);
        self.worker = Some(Worker::spawn("test-kubelet", move || {
            reconciler::live(World::new(settings, ledger, faults))
        }));
        let up = if self.settings.watcher_delay.is_zero() {
            Event::Watching
        } else {
            Event::Started
        };
        self.ledger
            .wait_for("come up", mark, Duration::from_secs(10), |event| {
                *event == up
            });
    }
}

impl Deref for TestKubelet {
    type Target = Ledger;
    fn deref(&self) -> &Ledger {
        &self.ledger
    }
}
