//! The commands of clients, carried out.

use super::{DriverId, Supervisor};
use crate::api::command::{Command, ManualAction, Outcome};
use crate::config::Settings;
use crate::driver::phase::Phase;
use crate::driver::{Event, Record};
use crate::systemd::journal::message_id;

impl Supervisor {
    pub(super) fn carry_out(&mut self, command: Command) -> Outcome {
        match command {
            Command::Manual { action, driver } => self.by_hand(action, &driver),
            Command::TakeUp { driver, record } => self.take_up(&driver, &record),
            Command::Reload => self.reload(),
        }
    }

    fn by_hand(&mut self, action: ManualAction, driver: &str) -> Result<(), String> {
        let id = self
            .find(driver)
            .ok_or_else(|| format!("there is no driver \"{driver}\""))?;
        let (event, word) = match action {
            ManualAction::Reannounce => {
                self.may_announce(&id)?;
                (Event::Reannounce("by hand"), "announced again")
            }
            ManualAction::Withdraw => (Event::Withdraw, "withdrawn"),
            ManualAction::Publish => (Event::Publish, "published"),
        };
        tracing::info!(driver = %id, "{id}: {word} by hand");
        self.apply(&id, event);
        self.tick(&id);
        Ok(())
    }

    /// A link is there to be made anew, and the driver answers: a kubelet that calls one which does
    /// not would only take it off the node.
    fn may_announce(&self, id: &DriverId) -> Result<(), String> {
        match self.entries.get(id) {
            Some(entry) if entry.driver.links().is_none() => Err(self.why_no_link(id)),
            Some(entry) if entry.driver.is_silent() => Err(format!(
                "{id} does not answer, and an announcement would take it off the node; start the driver first: {}",
                entry.shown.reason
            )),
            Some(_) => Ok(()),
            None => Err(self.why_no_link(id)),
        }
    }

    fn why_no_link(&self, id: &DriverId) -> String {
        match self.entries.get(id).map(|entry| &entry.shown) {
            Some(shown) if shown.phase == Phase::Withdrawn => {
                format!("{id} is withdrawn; publish it first")
            }
            Some(shown) => format!(
                "{id} has no link to announce again: {}: {}",
                shown.phase, shown.reason
            ),
            None => format!("there is no driver \"{id}\""),
        }
    }

    /// By id, or by the name that the driver has given.
    fn find(&self, driver: &str) -> Option<DriverId> {
        if let Some((id, _)) = self.entries.get_key_value(driver) {
            return Some(id.clone());
        }
        let named = |entry: &super::Runner| {
            entry
                .driver
                .name()
                .is_some_and(|name| name.as_str() == driver)
        };
        self.entries
            .iter()
            .find(|(_, entry)| named(entry))
            .map(|(id, _)| id.clone())
    }

    /// Reads the configuration again and applies the difference. A bad one changes nothing.
    pub(super) fn reload(&mut self) -> Result<(), String> {
        self.notifier.reloading();
        let outcome = (self.reread)().map(|settings| self.reconfigure(settings));
        self.refusal = outcome.as_ref().err().cloned();
        if let Some(why) = &self.refusal {
            let message_id = message_id::CONFIG_REFUSED;
            tracing::error!(
                message_id,
                "the changed configuration was refused, the old one stays: {why}"
            );
        }
        if self.ready {
            self.notifier.ready(&self.status_line());
        }
        self.changed = true;
        outcome
    }

    fn reconfigure(&mut self, settings: Settings) {
        let old = std::mem::replace(&mut self.settings, settings);
        let moved = self.settings.layout() != self.layout;
        let mut withdrawn = Vec::new();
        self.watch_plugins();
        // One that was found stays by the rules of discovery. One that has lost its table is found
        // anew, or gone as its table is.
        let stays = |supervisor: &Supervisor, id: &DriverId| {
            supervisor.settings.drivers.contains_key(&**id)
                || if old.drivers.contains_key(&**id) {
                    supervisor.has_plugin(id)
                } else {
                    supervisor.discovers(id)
                }
        };
        if !moved {
            self.rename_entries(stays);
        }
        let ids: Vec<DriverId> = self.entries.keys().cloned().collect();
        for id in ids {
            let named = self.settings.drivers.contains_key(&*id);
            let stays = stays(self, &id);
            if !stays {
                self.dismiss(&id);
            } else if moved {
                let record = self.entries.get(&id).map(|entry| entry.driver.record());
                self.dismiss(&id);
                // What somebody did by hand is undone by hand.
                withdrawn.extend(record.and_then(Record::by_hand).map(|record| (id, record)));
            } else if self.entries.get(&id).is_some_and(|entry| {
                entry.settings != self.settings.driver(&id) || entry.found == named
            }) {
                self.reconfigure_driver(&id);
            }
        }
        if moved {
            self.move_to_new_directories();
        } else if old.kubelet_root() != self.settings.kubelet_root() {
            self.look_below_another_root();
        }
        for (id, record) in withdrawn {
            self.add(&id, Some(&record));
        }
        let missing: Vec<String> = self
            .settings
            .drivers
            .keys()
            .filter(|id| !self.entries.contains_key(id.as_str()))
            .cloned()
            .collect();
        for id in missing {
            self.add(&id, None);
        }
        self.listen.send_replace(self.settings.http.listen.clone());
        self.look_at_plugins();
        self.unsaved = true;
        tracing::info!(
            drivers = self.entries.len(),
            "the configuration was read again"
        );
    }
}
