//! The kubelet's memory: the paths that it saw, the paths that it registered, and its drivers.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use super::ledger::Ledger;
use super::settings::{Faults, Settings};

/// When the kubelet saw a path: only equality matters, so a number is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp(u64);

/// One kubelet's memory; the tasks that share it run on one thread.
pub(super) struct World {
    pub(super) settings: Settings,
    pub(super) ledger: Arc<Ledger>,
    faults: Arc<Mutex<Faults>>,
    last_stamp: Cell<u64>,
    /// Desired: the paths that the watcher saw and that were not removed.
    pub(super) desired: RefCell<BTreeMap<PathBuf, Stamp>>,
    /// Actual: the paths for which a registration has begun.
    pub(super) actual: RefCell<BTreeMap<PathBuf, Plugin>>,
    /// The CSI plugin's own list, by driver name.
    pub(super) drivers: RefCell<BTreeMap<String, KnownDriver>>,
}

#[derive(Debug, Clone)]
pub(super) struct Plugin {
    pub(super) stamp: Stamp,
    pub(super) name: String,
}

#[derive(Debug, Clone)]
pub(super) struct KnownDriver {
    pub(super) version: Version,
    /// NodeGetInfo and the API writes succeeded.
    pub(super) installed: bool,
}

/// Major, minor, patch.
pub(super) type Version = [u32; 3];

impl World {
    pub(super) fn new(settings: Settings, ledger: Arc<Ledger>, faults: Arc<Mutex<Faults>>) -> Self {
        Self {
            settings,
            ledger,
            faults,
            last_stamp: Cell::default(),
            desired: RefCell::default(),
            actual: RefCell::default(),
            drivers: RefCell::default(),
        }
    }

    /// A path that the watcher sees again gets a new stamp, which causes a de-registration and a
    /// registration.
    pub(super) fn want(&self, path: &Path) {
        self.last_stamp.update(|stamp| stamp + 1);
        let stamp = Stamp(self.last_stamp.get());
        self.desired.borrow_mut().insert(path.to_owned(), stamp);
    }

    pub(super) fn unwant(&self, path: &Path) {
        self.desired.borrow_mut().remove(path);
    }

    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap()
    }

    /// Takes the driver's name before the driver has answered NodeGetInfo.
    pub(super) fn learn(&self, name: &str, version: Version) {
        let mut drivers = self.drivers.borrow_mut();
        // A driver with a lower version may be installed under that name.
        let installed = drivers.get(name).is_some_and(|old| old.installed);
        drivers.insert(name.to_owned(), KnownDriver { version, installed });
    }

    pub(super) fn install(&self, name: &str, version: Version) {
        let installed = true;
        let driver = KnownDriver { version, installed };
        self.drivers.borrow_mut().insert(name.to_owned(), driver);
    }

    /// Registered paths that are no longer desired, or that have a new stamp.
    pub(super) fn to_deregister(&self) -> Vec<(PathBuf, Plugin)> {
        let desired = self.desired.borrow();
        let actual = self.actual.borrow();
        let outdated = actual
            .iter()
            .filter(|(path, plugin)| desired.get(*path) != Some(&plugin.stamp));
        outdated
            .map(|(path, plugin)| (path.clone(), plugin.clone()))
            .collect()
    }

    /// Desired paths that are not registered with their present stamp.
    pub(super) fn to_register(&self) -> Vec<(PathBuf, Stamp)> {
        let actual = self.actual.borrow();
        let desired = self.desired.borrow();
        let missing = desired
            .iter()
            .filter(|(path, stamp)| actual.get(*path).map(|plugin| plugin.stamp) != Some(**stamp));
        missing
            .map(|(path, stamp)| (path.clone(), *stamp))
            .collect()
    }
}
