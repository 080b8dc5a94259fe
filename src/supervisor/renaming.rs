//! A driver whose id changes in the configuration and that is the same driver all the same.
//!
//! What makes it the same is its socket, or the name that its table demands. The record, or the running
//! driver, then goes to the new id, and a kubelet notices nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{DriverId, Followed, Subject, Supervisor};
use crate::disk::name::DriverName;
use crate::supervisor::state_file::{Origin, Written};

/// What is known of a driver by which it may be found under another id.
struct Known {
    id: String,
    csi_socket: Option<PathBuf>,
    name: Option<DriverName>,
    /// The settings have a driver of this id, wherever its socket is.
    stays: bool,
}

impl Supervisor {
    /// Puts each record under the id that the configuration has for its driver now.
    pub(super) fn rename_records(
        &self,
        records: BTreeMap<String, Written>,
    ) -> BTreeMap<String, Written> {
        let known = records.iter().map(|(id, written)| Known {
            id: id.clone(),
            csi_socket: written.csi_socket.clone(),
            name: written.record.name.clone(),
            stays: self.looks_after(id, written),
        });
        let mut new_ids = self.new_ids(known.collect());
        records
            .into_iter()
            .filter_map(|(id, written)| Some((new_ids.remove(&id)??, written)))
            .collect()
    }

    /// A driver of an earlier run that the configuration has, that would be found now, or that was
    /// found and that somebody still counts on, wherever its directory is now.
    pub(super) fn looks_after(&self, id: &str, written: &Written) -> bool {
        self.settings.drivers.contains_key(id)
            || self.has_plugin(id)
            || self.was_found(id, written) && self.still_discovers(id, &written.record)
    }

    /// An earlier version did not write down where a driver came from. One whose socket was elsewhere
    /// than discovery looks had a table.
    fn was_found(&self, id: &str, written: &Written) -> bool {
        let registered = written.record.registration.as_ref();
        let is_at_home = |endpoint: &PathBuf| *endpoint == self.settings.driver(id).endpoint;
        match written.origin {
            Some(origin) => origin == Origin::Discovery,
            None => registered.is_none_or(|registered| is_at_home(&registered.terms.endpoint)),
        }
    }

    /// Renames the drivers that run, as far as the changed settings have them under another id, and
    /// dismisses those that the settings do not have any more. `stays` tells which ids they still have.
    pub(super) fn rename_entries(&mut self, stays: impl Fn(&Supervisor, &DriverId) -> bool) {
        let known = self.entries.iter().map(|(id, entry)| Known {
            id: id.to_string(),
            csi_socket: Some(entry.settings.csi_socket.clone()),
            name: entry.driver.name().cloned(),
            stays: stays(self, id),
        });
        let mut moving = Vec::new();
        for (old, new) in self.new_ids(known.collect()) {
            let Some(new) = new else {
                self.dismiss(&old.into());
                continue;
            };
            if new == old {
                continue;
            }
            let (old, new) = (DriverId::from(old), DriverId::from(new));
            if let Some(entry) = self.unfollow(&old) {
                moving.push((old, new, entry));
            }
        }
        for (old, new, mut entry) in moving {
            tracing::info!(driver = %new, "{new}: this is the driver that was {old}");
            entry.endpoint.rename(&new);
            entry.owner = None;
            entry.followed = Followed::default();
            for holder in self.names.values_mut().filter(|holder| **holder == old) {
                *holder = new.clone();
            }
            self.metrics.registering.forget(&old);
            self.metrics.registering.expect(&new);
            self.entries.insert(new.clone(), entry);
            self.reconfigure_driver(&new);
        }
    }

    /// Takes a driver out, with all that is watched for it under its id.
    pub(super) fn unfollow(&mut self, id: &DriverId) -> Option<super::Runner> {
        let entry = self.entries.remove(id)?;
        self.board.touch(id);
        self.schedule.set(id, None);
        self.discovery.stays(id);
        self.watcher
            .unfollow(&entry.settings.csi_socket, &Subject::Driver(id.clone()));
        if let Some(path) = &entry.followed.socket {
            self.watcher.unfollow(path, &Subject::Socket(id.clone()));
        }
        if let Some(path) = &entry.followed.link {
            self.watcher.unfollow(path, &Subject::Link(id.clone()));
        }
        Some(entry)
    }

    /// The id of each driver from now on; none for one that the settings do not have any more, or whose
    /// id another driver has now. Each id is given once: to the driver at its socket, else to the one
    /// with its name, else to the one that had it.
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
