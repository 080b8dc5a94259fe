//! Looks at the volumes in use, before a driver is taken off the node.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::inputs::{Input, send};
use super::{Runner, RunnerKey, Supervisor};
use crate::api::command::CommandResult;
use crate::driver::Event;
use crate::kubelet::volumes::{NodeVolumes, VolumeUse};
use crate::os::task::Task;

/// The reply to a client.
pub(super) type Reply = oneshot::Sender<CommandResult>;

/// What waits for a look at the volumes.
pub(super) enum Asking {
    /// A driver's state machine.
    Driver(RunnerKey),
    /// The directory of a driver, or its table, is gone.
    Departure(RunnerKey),
    /// An operator withdraws a driver, with its id or name.
    Withdrawal {
        driver: String,
        force: bool,
        reply: Reply,
    },
    /// Drivers that the changed configuration has lost leave.
    Reload(Option<Reply>),
}

/// The look that goes on, and what waits for it and for the next.
#[derive(Default)]
pub(super) struct VolumeLooks {
    look: Option<Task>,
    waiting: Vec<Asking>,
    /// Came after the look began, which may have missed a volume that was mounted meanwhile.
    next: Vec<Asking>,
}

impl VolumeLooks {
    #[cfg(test)]
    pub(super) fn is_looking(&self) -> bool {
        self.look.is_some()
    }
}

impl Supervisor {
    /// Looks at the volumes in another thread. The main loop goes on, and hears of the outcome.
    pub(super) fn look_at_volumes(&mut self, asking: Asking) {
        self.volume_looks.next.push(asking);
        self.begin_look();
    }

    fn begin_look(&mut self) {
        let looks = &mut self.volume_looks;
        if looks.look.is_some() || looks.next.is_empty() {
            return;
        }
        looks.waiting = std::mem::take(&mut looks.next);
        let (reader, sender) = (self.volumes.clone(), self.sender.clone());
        looks.look = Some(Task::spawn(async move {
            let volumes = reader.read().await;
            send(&sender, Input::Volumes(volumes));
        }));
    }

    /// A look has ended.
    pub(super) fn volumes_seen(&mut self, volumes: &Arc<NodeVolumes>) {
        self.volume_looks.look = None;
        for asking in std::mem::take(&mut self.volume_looks.waiting) {
            match asking {
                Asking::Driver(key) => {
                    if let Some(runner) = self.runners.get(&key) {
                        let event = Event::VolumesSeen(runner.volumes(volumes));
                        self.push(key, event);
                    }
                }
                Asking::Departure(key) => self.depart(key, volumes),
                Asking::Withdrawal {
                    driver,
                    force,
                    reply,
                } => {
                    let outcome = self.withdraw(&driver, force, volumes);
                    self.outcomes.push((reply, outcome));
                }
                Asking::Reload(reply) => {
                    let outcome = self.reload(volumes);
                    self.outcomes.extend(reply.map(|reply| (reply, outcome)));
                }
            }
        }
        self.begin_look();
    }

    /// Reads the configuration again and applies the difference, once it is known which drivers are in use.
    pub(super) fn ask_to_reload(&mut self, reply: Option<Reply>) {
        let has_link = |runner: &Runner| runner.driver.links().is_some();
        if self.runners.values().any(has_link) {
            self.look_at_volumes(Asking::Reload(reply));
        } else {
            let outcome = self.reload(&NodeVolumes::default());
            self.outcomes.extend(reply.map(|reply| (reply, outcome)));
        }
    }
}

impl Runner {
    /// The driver's volumes. A driver that never gave a name has none.
    pub(super) fn volumes(&self, volumes: &NodeVolumes) -> VolumeUse {
        let unclaimed = self.unclaimed.as_ref().map(|left| &left.name);
        let name = self.driver.name().or(unclaimed);
        name.map_or(VolumeUse::Free, |name| volumes.of(name))
    }

    /// The volumes that forbid to take the driver off the node, in words. Without a link it is off the node
    /// already.
    pub(super) fn kept_by(&self, volumes: &NodeVolumes) -> Option<String> {
        let has_link = self.driver.links().is_some() || self.unclaimed.is_some();
        self.volumes(volumes).words().filter(|_| has_link)
    }
}
