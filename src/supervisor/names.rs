//! Which driver serves under a name, and how a name passes to another driver.

use std::collections::HashMap;

use super::{DriverId, Runner, RunnerKey, Supervisor, Work};
use crate::disk::name::DriverName;

/// The names that drivers serve under.
#[derive(Default)]
pub(super) struct Names(HashMap<DriverName, (RunnerKey, DriverId)>);

impl Names {
    /// # Errors
    /// Another driver has the name.
    pub(super) fn check(
        &self,
        name: &DriverName,
        key: RunnerKey,
    ) -> Result<(), &(RunnerKey, DriverId)> {
        let other = self.0.get(name).filter(|holder| holder.0 != key);
        other.map_or(Ok(()), Err)
    }

    /// The driver serves under the name, which [`Names::check`] has found free.
    pub(super) fn claim(&mut self, name: &DriverName, key: RunnerKey, id: &DriverId) {
        self.0.insert(name.clone(), (key, id.clone()));
    }

    pub(super) fn release(&mut self, name: &DriverName, key: RunnerKey) {
        if self.0.get(name).is_some_and(|holder| holder.0 == key) {
            self.0.remove(name);
        }
    }

    /// The driver has another id from now on.
    pub(super) fn rename(&mut self, key: RunnerKey, id: &DriverId) {
        for holder in self.0.values_mut().filter(|holder| holder.0 == key) {
            holder.1 = id.clone();
        }
    }
}

impl Supervisor {
    /// A driver wants the name of another driver. A holder that is silent gives the name up, and its
    /// link and registration only to a driver that answers.
    pub(super) fn name_wanted(&mut self, holder: RunnerKey, by: RunnerKey) {
        let now = self.now();
        let Some(wanting) = self.runners.get(&by) else {
            return;
        };
        let can_take_over = wanting.driver.can_take_over();
        let Some(held) = self.runners.get_mut(&holder) else {
            return;
        };
        let (name, old_id) = (held.driver.name().cloned(), held.id.clone());
        let handover = held.driver.give_up_name(can_take_over);
        let (Some(name), Some(handover)) = (name, handover) else {
            return;
        };
        // The old socket is served until the new one is renamed over it: the link leads there.
        let service = held.files.service.take();
        if let Some(wanting) = self.runners.get_mut(&by) {
            wanting.driver.inherit(handover, now);
            wanting.files.service = wanting.files.service.take().or(service);
            let id = &wanting.id;
            tracing::info!(driver = %id, "{id}: takes over the name {name} from {old_id}, which does not answer");
        }
        self.names.release(&name, holder);
        self.state_file.changed();
        self.queue.mark(holder);
        // It may answer under another name, which it can take now.
        self.queue.push(holder, Work::Tick);
        self.look_at_files(by);
    }

    /// Lets the drivers that another driver keeps from this name try again.
    pub(super) fn offer_name(&mut self, name: &DriverName) {
        let waits =
            |runner: &Runner| runner.driver.name_is_taken() && runner.driver.name() == Some(name);
        for key in self.keys_where(waits) {
            self.queue.push(key, Work::Look);
        }
    }
}
