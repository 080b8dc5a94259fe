//! A driver whose id changes in the configuration and that is the same driver all the same.
//!
//! What makes it the same is its socket, or the name that its table demands. The record, or the running
//! driver, then goes to the new id, and a kubelet notices nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::state_file::{Origin, SavedDriver};
use super::{DriverId, Supervisor};
use crate::disk::name::DriverName;

/// What is known of a driver, by which it may be recognized under another id.
struct Known {
    id: String,
    csi_socket: Option<PathBuf>,
    name: Option<DriverName>,
    /// The settings have a driver of this id, wherever its socket is.
    stays: bool,
}

impl Supervisor {
    /// Puts each record under the id that the configuration has for its driver now.
    pub(super) fn rename_saved(
        &self,
        saved: BTreeMap<String, SavedDriver>,
    ) -> BTreeMap<String, SavedDriver> {
        let known = saved.iter().map(|(id, saved)| Known {
            id: id.clone(),
            csi_socket: saved.csi_socket.clone(),
            name: saved.record.name.clone(),
            stays: self.looks_after(id, saved),
        });
        let mut new_ids = self.new_ids(known.collect());
        saved
            .into_iter()
            .filter_map(|(id, saved)| Some((new_ids.remove(&id)??, saved)))
            .collect()
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
            None => registered.is_none_or(|registered| is_at_home(&registered.terms.endpoint)),
        }
    }

    /// Renames the drivers that run, as far as the changed settings have them under another id, and
    /// removes those that the settings do not have any more. `stays` tells which ids they still have.
    pub(super) fn rename_drivers(&mut self, stays: impl Fn(&Supervisor, &str) -> bool) {
        let known = self.runners.values().map(|runner| Known {
            id: runner.id.to_string(),
            csi_socket: Some(runner.settings.csi_socket.clone()),
            name: runner.driver.name().cloned(),
            stays: stays(self, &runner.id),
        });
        let new_ids = self.new_ids(known.collect());
        let mut renamed = Vec::new();
        for key in self.keys() {
            let Some(old) = self.runners.get(&key).map(|runner| runner.id.clone()) else {
                continue;
            };
            let new = new_ids.get(&*old).and_then(|new| new.as_deref());
            match new {
                None => drop(self.remove_driver(key)),
                Some(new) if *new == *old => {}
                Some(new) => {
                    tracing::info!(driver = %new, "{new}: this is the driver that was {old}");
                    self.metrics.registering.forget(&old);
                    self.board.set(&old, None);
                    renamed.push((key, DriverId::from(new)));
                }
            }
        }
        for (key, id) in renamed {
            self.metrics.registering.expect(&id);
            self.names.rename(key, &id);
            if let Some(runner) = self.runners.get_mut(&key) {
                runner.id = id;
            }
            self.reconfigure_driver(key);
        }
    }

    /// The id of each driver from now on; none for a driver that the settings do not have any more, or
    /// whose id another driver has now. Each id is given once: to the driver at its socket, else to the
    /// driver with its name, else to the driver that had it.
    fn new_ids(&self, known: Vec<Known>) -> BTreeMap<String, Option<String>> {
        let mut new_ids = BTreeMap::new();
        let mut given = BTreeSet::new();
        let mut give = |driver: &Known, id: Option<String>| {
            let is_free = |id: &String| given.insert(id.clone());
            let id = id.filter(is_free);
            let is_given = id.is_some();
            new_ids.insert(driver.id.clone(), id);
            is_given
        };
        let mut left = known;
        left.retain(|driver| {
            let socket = driver.csi_socket.as_deref();
            let id = socket.and_then(|socket| self.id_of_socket(socket));
            !give(driver, id.filter(|id| driver.stays || *id != driver.id))
        });
        left.retain(|driver| {
            let name = driver.name.as_ref();
            !give(driver, name.and_then(|name| self.id_of_name(name)))
        });
        for driver in left {
            let stays = driver.stays.then(|| driver.id.clone());
            give(&driver, stays);
        }
        new_ids
    }

    fn id_of_socket(&self, socket: &Path) -> Option<String> {
        let mut tables = self.settings.drivers.iter();
        if let Some((id, _)) = tables.find(|(_, driver)| driver.csi_socket == socket) {
            return Some(id.clone());
        }
        let id = socket.parent()?.file_name()?.to_str()?;
        let found = self.settings.driver(id).csi_socket == socket && self.discovers(id);
        found.then(|| id.to_owned())
    }

    fn id_of_name(&self, name: &DriverName) -> Option<String> {
        let mut tables = self.settings.drivers.iter();
        let (id, _) = tables.find(|(_, driver)| driver.name.as_ref() == Some(name))?;
        Some(id.clone())
    }
}
