//! Which driver serves under a name, and how a name passes to another driver.

use std::collections::{BTreeSet, HashMap};

use super::{DriverId, Job, RunnerKey, Supervisor};
use crate::disk::name::DriverName;

/// The names that drivers serve under, each with the drivers that wait for it.
#[derive(Default)]
pub(super) struct Names(HashMap<DriverName, Claims>);

#[derive(Default)]
struct Claims {
    holder: Option<(RunnerKey, DriverId)>,
    waiting: BTreeSet<RunnerKey>,
}

impl Names {
    /// Takes the name, or waits for it.
    ///
    /// # Errors
    /// Another driver has the name.
    pub(super) fn claim(
        &mut self,
        name: &DriverName,
        key: RunnerKey,
        id: &DriverId,
    ) -> Result<(), &(RunnerKey, DriverId)> {
        let claims = self.0.entry(name.clone()).or_default();
        let holder = claims.holder.get_or_insert_with(|| (key, id.clone()));
        if holder.0 == key {
            claims.waiting.remove(&key);
            return Ok(());
        }
        claims.waiting.insert(key);
        Err(holder)
    }

    /// The driver has another id from now on.
    pub(super) fn rename(&mut self, key: RunnerKey, id: &DriverId) {
        let holders = self
            .0
            .values_mut()
            .filter_map(|claims| claims.holder.as_mut());
        for holder in holders.filter(|holder| holder.0 == key) {
            holder.1 = id.clone();
        }
    }

    /// Gives the name up. Returns the drivers that wait for it.
    pub(super) fn release(&mut self, name: &DriverName, key: RunnerKey) -> BTreeSet<RunnerKey> {
        match self.0.get(name) {
            Some(Claims {
                holder: Some((holder, _)),
                ..
            }) if *holder == key => self.0.remove(name).unwrap_or_default().waiting,
            Some(_) | None => BTreeSet::new(),
        }
    }

    /// The drivers that wait for the name. They claim it again, or not at all.
    pub(super) fn take_waiting(&mut self, name: &DriverName) -> BTreeSet<RunnerKey> {
        let claims = self.0.get_mut(name);
        claims.map_or_else(BTreeSet::new, |claims| std::mem::take(&mut claims.waiting))
    }
}

impl Supervisor {
    /// A driver wants the name of another driver. A holder that is silent gives the name up, and its
    /// link and registration only to a driver that answers.
    pub(super) fn name_wanted(&mut self, holder: RunnerKey, by: RunnerKey) {
        let now = self.now();
        let Some(can_take_over) = self.runners.get(by).map(|by| by.driver.can_take_over()) else {
            return;
        };
        let Some(held) = self.runners.get_mut(holder) else {
            return;
        };
        let Some(name) = held.driver.name().cloned() else {
            return;
        };
        let Some(handover) = held.driver.give_up_name(can_take_over) else {
            return;
        };
        // The old socket is served until the new one is renamed over it: the link leads there.
        let service = held.files.service.take();
        let old_id = held.id.clone();
        if let Some(runner) = self.runners.get_mut(by) {
            runner.driver.inherit(handover, now);
            runner.files.service = runner.files.service.take().or(service);
            let id = &runner.id;
            tracing::info!(driver = %id, "{id}: takes over the name {name} from {old_id}, which does not answer");
        }
        self.state_file.changed();
        self.queue.mark(holder);
        self.queue.push(by, Job::NameFree(name.clone()));
        for key in self.names.release(&name, holder) {
            self.queue.push(key, Job::NameFree(name.clone()));
        }
    }

    /// The driver that has the name may let another driver have it by now.
    pub(super) fn offer_name(&mut self, key: RunnerKey) {
        let served = self
            .runners
            .get(key)
            .and_then(|runner| runner.driver.serves());
        if let Some((name, _)) = served {
            for waiting in self.names.take_waiting(name) {
                self.queue.push(waiting, Job::NameFree(name.clone()));
            }
        }
    }
}
