//! A reload: reads the configuration again and applies the difference.

use std::collections::HashSet;
use std::path::Path;

use jiff::Timestamp;

use super::saved_state::Origin;
use super::taken_off::{Directories, Removal};
use super::{RunnerKey, Subject, Supervisor, Work};
use crate::api::command::CommandResult;
use crate::config::Settings;
use crate::csi::discover::Discoverable;
use crate::disk::watch::Watcher;
use crate::kubelet::known::KnownKubelets;
use crate::kubelet::volumes::NodeVolumes;
use crate::os::text::on_one_line;
use crate::systemd::journal::message_id;

/// What the daemon says before the reasons.
const REFUSED: &str = "the daemon refused the changed configuration and keeps the old configuration until the next reload";

impl Supervisor {
    /// Reads the configuration again and applies the difference. A bad configuration changes nothing. A driver
    /// that the configuration has lost stays while these volumes of it are in use.
    pub(super) fn reload(&mut self, volumes: &NodeVolumes) -> CommandResult {
        self.notifier.reloading();
        let reread = (self.reread)();
        let accepted = reread.and_then(|settings| match self.move_in_use(&settings, volumes) {
            Some(refusal) => Err(refusal),
            None => Ok(settings),
        });
        let outcome = accepted.map(|settings| self.reconfigure(settings, volumes));
        let why = outcome.as_ref().err();
        // An entry of the journal, a note and STATUS= are a single line each.
        self.troubles.refusal = why.map(|why| format!("{REFUSED}: {}", on_one_line(why)));
        if let Some(refusal) = &self.troubles.refusal {
            let message_id = message_id::CONFIG_REFUSED;
            tracing::error!(message_id, "{refusal}");
        } else {
            self.config_accepted = Timestamp::now();
        }
        self.work();
        if self.ready {
            let line = self.status_line();
            self.notifier.ready(&line);
        }
        outcome
    }

    /// Why the drivers cannot move to other directories now. A driver that responds is published there at once;
    /// a driver that does not, or that the settings have lost, would be off the node while its volumes are in use.
    fn move_in_use(&self, settings: &Settings, volumes: &NodeVolumes) -> Option<String> {
        let moved = Directories::of(&self.layout).change_to(settings, &settings.layout())?;
        let discoverable = Discoverable::of(settings);
        let mut runners = self.runners.values();
        runners.find_map(|runner| {
            let kept_by = runner.kept_by(volumes)?;
            let id = &*runner.id;
            let is_lost = !settings.drivers.contains_key(id) && !discoverable.has(settings, id);
            let (why, fix) = match (is_lost, runner.driver.answer()) {
                (false, Some(_)) => return None,
                (true, _) => ("is lost", "keep it in the configuration"),
                (false, None) => ("does not respond", "start the driver"),
            };
            Some(format!(
                "{moved}, but {id} {why}, and would be off the node: {kept_by}; {fix}, or delete the pods, and reload then"
            ))
        })
    }

    fn reconfigure(&mut self, settings: Settings, volumes: &NodeVolumes) {
        let old = std::mem::replace(&mut self.settings, settings);
        let layout = self.settings.layout();
        let moved = Directories::of(&self.layout).change_to(&self.settings, &layout);
        self.watch_plugins();
        // A discovered driver stays by the rules of discovery. A driver that has lost its table is
        // discovered now, or gone as its table is.
        let stays = |supervisor: &Supervisor, id: &str| {
            supervisor.settings.drivers.contains_key(id)
                || if old.drivers.contains_key(id) || supervisor.has_lost(id) {
                    supervisor.has_plugin(id)
                } else {
                    supervisor.discovers(id)
                }
        };
        if moved.is_none() {
            self.rename_drivers(&old, volumes, stays);
        }
        let mut withdrawn = Vec::new();
        for key in self.keys() {
            let Some(runner) = self.runners.get(&key) else {
                continue;
            };
            let is_changed = runner.settings != self.settings.driver(&runner.id)
                || runner.origin != self.origin(&runner.id);
            let stays = stays(self, &runner.id);
            let removal = match &moved {
                None if stays => {
                    self.stays_configured(key);
                    if is_changed {
                        self.reconfigure_driver(key);
                    }
                    continue;
                }
                None => {
                    self.lose(key, &old, volumes);
                    continue;
                }
                Some(key) if stays => Removal::Moved(key),
                Some(_) => Removal::Gone,
            };
            self.tell_removal(&old, runner, &removal);
            // What was done by hand is undone by hand.
            let removed = self.remove_driver(key).filter(|_| stays);
            let record =
                removed.and_then(|runner| Some((runner.id, runner.driver.record().by_hand()?)));
            withdrawn.extend(record);
        }
        self.volumes.move_to(self.settings.kubelet_roots());
        let root = self.settings.kubelet_root().to_owned();
        if moved.is_some() || old.kubelet_root() != root {
            self.each_start_socket(Watcher::unfollow);
            if moved.is_some() {
                self.layout = layout;
                self.kubelets = KnownKubelets::new(&root, self.layout.plugins_registry());
            } else {
                // What a kubelet was told and told us still holds.
                self.kubelets.look_below(&root);
            }
            self.each_start_socket(Watcher::follow);
        }
        for (id, record) in withdrawn {
            self.add(&id, Some(&record));
        }
        let known: HashSet<&str> = self.runners.values().map(|runner| &*runner.id).collect();
        let configured = self.settings.drivers.keys();
        let new = configured
            .filter(|id| !known.contains(id.as_str()))
            .cloned();
        for id in new.collect::<Vec<String>>() {
            self.add(&id, None);
        }
        self.listen.send_replace(self.settings.http.listen.clone());
        self.look_at_plugins();
        self.state_file.changed();
        tracing::info!(
            drivers = self.runners.len(),
            "the configuration was read again"
        );
    }

    /// Goes on with a driver whose settings have changed. A kubelet that calls at that moment does
    /// not notice, and what was counted still counts.
    pub(super) fn reconfigure_driver(&mut self, key: RunnerKey) {
        let now = self.now();
        let Some(runner) = self.runners.get(&key) else {
            return;
        };
        let (id, generation) = (runner.id.clone(), runner.generation + 1);
        self.watcher
            .unfollow(&runner.settings.csi_socket, &Subject::Driver(key));
        let (settings, origin) = (self.settings.driver(&id), self.origin(&id));
        let monitor = self.monitor(key, generation, &id);
        if let Some(runner) = self.runners.get_mut(&key) {
            runner.reconfigure(settings, monitor, origin, now);
            runner.look_at_exposure(&self.reach);
        }
        // What was in the way before may not be by the new settings.
        self.queue.push(key, Work::Look);
        self.queue.push(key, Work::Tick);
    }

    /// Where the settings have the driver from.
    pub(super) fn origin(&self, id: &str) -> Origin {
        if self.settings.drivers.contains_key(id) {
            Origin::Table
        } else {
            Origin::Discovery
        }
    }

    pub(super) fn each_start_socket(&mut self, act: fn(&mut Watcher<Subject>, &Path, &Subject)) {
        for (number, path) in self.kubelets.start_sockets().iter().enumerate() {
            act(&mut self.watcher, path, &Subject::StartSocket(number));
        }
    }
}
