//! A driver whose id changes in the configuration and that is the same driver all the same.
//!
//! What makes it the same is its socket, or the name that its table demands. The record, or the running
//! driver, then goes to the new id, and a kubelet notices nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{DriverId, Followed, Subject, Supervisor};
use crate::name::DriverName;
use crate::state::{Origin, Written};

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
        let new_ids = self.new_ids(known.collect());
        let new_id = |id: String| new_ids.get(&id).cloned().unwrap_or(id);
        records
            .into_iter()
            .map(|(id, written)| (new_id(id), written))
            .collect()
    }

    /// A driver of an earlier run that the configuration has, that would be found now, or that was
    /// found and that somebody still counts on, wherever its directory is now.
    pub(super) fn looks_after(&self, id: &str, written: &Written) -> bool {
        self.settings.drivers.contains_key(id)
            || self.has_plugin(id)
            || written.origin != Some(Origin::Table) && self.still_discovers(id, &written.record)
    }

    /// Renames the drivers that run, as far as the changed settings have them under another id.
    /// `stays` tells which ids the settings still have.
    pub(super) fn rename_entries(&mut self, stays: impl Fn(&Supervisor, &DriverId) -> bool) {
        let known = self.entries.iter().map(|(id, entry)| Known {
            id: id.to_string(),
            csi_socket: Some(entry.settings.csi_socket.clone()),
            name: entry.driver.name().cloned(),
            stays: stays(self, id),
        });
        let new_ids = self.new_ids(known.collect());
        let mut moving = Vec::new();
        for (old, new) in new_ids {
            let (old, new) = (DriverId::from(old), DriverId::from(new));
            if let Some(entry) = self.unfollow(&old) {
                moving.push((old, new, entry));
            }
        }
        for (old, new, mut entry) in moving {
            tracing::info!(driver = %new, "{new}: this is the driver that was {old}");
            entry.desk.rename(&new);
            entry.owner = None;
            entry.followed = Followed::default();
            for holder in self.names.values_mut().filter(|holder| **holder == old) {
                *holder = new.clone();
            }
            self.metrics.registering.forget(&old);
            self.metrics.registering.expect(&new);
            self.entries.insert(new.clone(), entry);
            self.go_on(&new);
        }
    }

    /// Takes a driver out, with all that is watched for it under its id.
    pub(super) fn unfollow(&mut self, id: &DriverId) -> Option<super::Entry> {
        let entry = self.entries.remove(id)?;
        self.schedule.set(id, None);
        self.discovery.departures.set(id, None);
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

    /// The new id of each driver that has one. Nobody gets the id of a driver that keeps it.
    fn new_ids(&self, known: Vec<Known>) -> BTreeMap<String, String> {
        let mut new_ids = BTreeMap::new();
        let mut left = Vec::new();
        for driver in known {
            let home = self.settings.driver(&driver.id).csi_socket;
            let socket = driver.csi_socket.as_ref();
            let elsewhere = socket.filter(|socket| !driver.stays || **socket != home);
            let new = elsewhere.and_then(|socket| self.id_of_socket(socket));
            match new.filter(|new| *new != driver.id) {
                Some(new) => drop(new_ids.insert(driver.id, new)),
                None => left.push(driver),
            }
        }
        let (stays, left): (Vec<Known>, Vec<Known>) =
            left.into_iter().partition(|driver| driver.stays);
        let kept: BTreeSet<String> = stays.into_iter().map(|driver| driver.id).collect();
        new_ids.retain(|_, new| !kept.contains(new));
        for driver in left {
            let taken = |id: &str| kept.contains(id) || new_ids.values().any(|new| new == id);
            let named = driver.name.and_then(|name| self.id_of_name(&name));
            if let Some(new) = named.filter(|new| *new != driver.id && !taken(new)) {
                new_ids.insert(driver.id, new);
            }
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
        let (id, _) = tables.find(|(_, driver)| driver.name.as_deref() == Some(name.as_str()))?;
        Some(id.clone())
    }
}
