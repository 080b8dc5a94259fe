//! A driver whose id changes in the configuration and that is the same driver all the same.
//!
//! What makes it the same is its socket, or the name that its table demands. The record, or the running
//! driver, then goes to the new id, and a kubelet notices nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::saved_state::{Origin, SavedDriver};
use super::{DriverId, RunnerKey, Supervisor};
use crate::config::Settings;
use crate::csi::discover::Discoverable;
use crate::disk::name::DriverName;
use crate::kubelet::volumes::NodeVolumes;

/// What is known of a driver, by which it may be recognized under another id.
pub(crate) struct Known {
    pub(crate) id: String,
    pub(crate) csi_socket: Option<PathBuf>,
    pub(crate) name: Option<DriverName>,
    /// The settings have a driver of this id, wherever its socket is.
    pub(crate) stays: bool,
}

/// A way to recognize a driver: returns the id that the driver then has.
type Way<'a> = &'a dyn Fn(&Known) -> Option<String>;

impl Supervisor {
    /// Puts each record under the id that the configuration has for its driver now. Second are the records for
    /// which it has none.
    pub(super) fn rename_saved(
        &self,
        saved: BTreeMap<String, SavedDriver>,
    ) -> (BTreeMap<String, SavedDriver>, BTreeMap<String, SavedDriver>) {
        let known = saved.iter().map(|(id, saved)| Known {
            id: id.clone(),
            csi_socket: saved.csi_socket.clone(),
            name: saved.record.name.clone(),
            stays: self.looks_after(id, saved),
        });
        let mut new_ids = self.new_ids(known.collect());
        let (mut renamed, mut lost) = (BTreeMap::new(), BTreeMap::new());
        for (id, saved) in saved {
            match new_ids.remove(&id).flatten() {
                Some(new_id) => renamed.insert(new_id, saved),
                None => lost.insert(id, saved),
            };
        }
        (renamed, lost)
    }

    /// A driver of an earlier run that the configuration has, that discovery would find now, or that was
    /// discovered and that a kubelet or an operator still counts on, wherever its directory is now.
    pub(super) fn looks_after(&self, id: &str, saved: &SavedDriver) -> bool {
        self.settings.drivers.contains_key(id)
            || self.has_plugin(id)
            || self.was_found(id, saved) && saved.record.is_held() && self.discovers(id)
    }

    /// An earlier version did not save where a driver came from. A driver whose socket was elsewhere than
    /// discovery looks had a table.
    fn was_found(&self, id: &str, saved: &SavedDriver) -> bool {
        let registered = saved.record.registration.as_ref();
        let is_at_home = |endpoint: &PathBuf| *endpoint == self.settings.driver(id).endpoint;
        match saved.origin {
            Some(origin) => origin == Origin::Discovery,
            None => registered.is_none_or(|registered| is_at_home(&registered.advertised.endpoint)),
        }
    }

    /// Renames the drivers that run, as far as the changed settings have them under another id, and
    /// removes those that the settings do not have any more. `stays` tells which ids they still have.
    pub(super) fn rename_drivers(
        &mut self,
        old: &Settings,
        volumes: &NodeVolumes,
        stays: impl Fn(&Supervisor, &str) -> bool,
    ) {
        let known = self.runners.values().map(|runner| Known {
            id: runner.id.to_string(),
            csi_socket: Some(runner.settings.csi_socket.clone()),
            name: runner.driver.name().cloned(),
            stays: stays(self, &runner.id),
        });
        let mut renamed = Vec::new();
        let new_ids = self.new_ids(known.collect());
        let given: BTreeSet<String> = new_ids.values().flatten().cloned().collect();
        let changed = new_ids.into_iter();
        for (id, new) in changed.filter(|(id, new)| new.as_ref() != Some(id)) {
            let Some(key) = self.key_of(&id) else {
                continue;
            };
            let Some(new) = new.map(DriverId::from) else {
                self.lose(key, old, volumes);
                if given.contains(&id) {
                    self.yield_id(key, &given);
                }
                continue;
            };
            tracing::info!(driver = %new, "{new}: this is the driver that was {id}");
            self.give_up_id(&id.into());
            renamed.push((key, new));
        }
        // When all old ids are given up: two drivers may exchange theirs.
        for (key, id) in renamed {
            self.take_id(key, id);
            self.reconfigure_driver(key);
        }
    }

    fn give_up_id(&mut self, id: &DriverId) {
        self.metrics.registering.forget(id);
        self.board.set(id, None);
    }

    fn take_id(&mut self, key: RunnerKey, id: DriverId) {
        self.metrics.registering.expect(&id);
        self.names.rename(key, &id);
        if let Some(runner) = self.runners.get_mut(&key) {
            runner.id = id;
        }
    }

    /// A driver that stays while it is in use leaves its id to another driver.
    fn yield_id(&mut self, key: RunnerKey, given: &BTreeSet<String>) {
        let Some(runner) = self.runners.get(&key) else {
            return;
        };
        let known = |id: &str| self.key_of(id).is_some_and(|other| other != key);
        let is_taken = |id: &str| given.contains(id) || known(id);
        let old = runner.id.clone();
        let new = free_id(&old, runner.driver.name(), is_taken);
        self.give_up_id(&old);
        self.take_id(key, new.into());
    }

    fn new_ids(&self, known: Vec<Known>) -> BTreeMap<String, Option<String>> {
        let discoverable = self.discovery.discoverable();
        new_ids(
            &self.settings,
            discoverable,
            |id| self.has_plugin(id),
            known,
        )
    }
}

/// The id of each driver from now on; none for a driver that the settings do not have any more, or
/// whose id another driver has now. Each id is given once: to the driver at its socket, else to the
/// driver with its name, else to the driver that had it. `finds` tells whether discovery finds a driver of
/// an id now: a table with a socket that was never there must not make a driver of that directory.
pub(crate) fn new_ids(
    settings: &Settings,
    discoverable: &Discoverable,
    finds: impl Fn(&str) -> bool,
    known: Vec<Known>,
) -> BTreeMap<String, Option<String>> {
    let by_socket = |driver: &Known| {
        let id = id_of_socket(settings, discoverable, driver.csi_socket.as_deref()?)?;
        let is_known = id == driver.id || settings.drivers.contains_key(&id) || finds(&id);
        (is_known && (driver.stays || id != driver.id)).then_some(id)
    };
    let by_name = |driver: &Known| id_of_name(settings, driver.name.as_ref()?);
    let by_id = |driver: &Known| driver.stays.then(|| driver.id.clone());
    let ways: [Way<'_>; 3] = [&by_socket, &by_name, &by_id];
    let mut new_ids: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut given = BTreeSet::new();
    for id_of in ways {
        for driver in &known {
            let new_id = new_ids.entry(driver.id.clone()).or_default();
            if new_id.is_none() {
                *new_id = id_of(driver).filter(|id| given.insert(id.clone()));
            }
        }
    }
    new_ids
}

/// An id for a driver whose id another driver may have: the id itself, else its name, else its name with a number.
pub(super) fn free_id(
    id: &str,
    name: Option<&DriverName>,
    is_taken: impl Fn(&str) -> bool,
) -> String {
    let name = name.map_or(id, DriverName::as_str);
    let numbered = (2..).map(|number: u64| format!("{name}.{number}"));
    let mut ids = [id.to_owned(), name.to_owned()].into_iter().chain(numbered);
    ids.find(|id| !is_taken(id)).unwrap_or_default()
}

fn id_of_socket(settings: &Settings, discoverable: &Discoverable, socket: &Path) -> Option<String> {
    let mut tables = settings.drivers.iter();
    if let Some((id, _)) = tables.find(|(_, driver)| driver.csi_socket == socket) {
        return Some(id.clone());
    }
    let id = socket.parent()?.file_name()?.to_str()?;
    let found = settings.driver(id).csi_socket == socket && discoverable.has(settings, id);
    found.then(|| id.to_owned())
}

fn id_of_name(settings: &Settings, name: &DriverName) -> Option<String> {
    let mut tables = settings.drivers.iter();
    let (id, _) = tables.find(|(_, driver)| driver.name.as_ref() == Some(name))?;
    Some(id.clone())
}
