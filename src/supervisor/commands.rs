//! The commands of clients, carried out.

use super::volume_looks::{Asking, Reply};
use super::{Runner, RunnerKey, Supervisor, Work};
use crate::api::command::{ClientCommand, CommandResult, ManualAction};
use crate::disk::name::DriverName;
use crate::driver::phase::Phase;
use crate::driver::{Calling, Event};
use crate::kubelet::volumes::NodeVolumes;

/// Why verify has a driver announced.
const LOST_IN_CLUSTER: &str = "the cluster had lost the driver";

impl Supervisor {
    /// Carries a command out. The reply comes with the end of a turn: of this one, or of the turn that knows
    /// the volumes in use.
    pub(super) fn carry_out(&mut self, command: ClientCommand, reply: Reply) {
        let outcome = match command {
            ClientCommand::Manual { action, driver } => match action {
                ManualAction::Withdraw { force } if self.find(&driver).is_some() => {
                    return self.look_at_volumes(Asking::Withdrawal {
                        driver,
                        force,
                        reply,
                    });
                }
                ManualAction::Withdraw { .. } => Err(no_driver(&driver)),
                ManualAction::Reannounce => self.reannounce(&driver),
                ManualAction::Repair { registrations } => self.repair(&driver, registrations),
                ManualAction::Publish => self.act(&driver, Event::Publish, "published by hand"),
            },
            ClientCommand::ReportCluster(report) => {
                self.cluster_reported(report);
                Ok(())
            }
            ClientCommand::Reload => return self.ask_to_reload(Some(reply)),
        };
        self.outcomes.push((reply, outcome));
    }

    fn act(&mut self, driver: &str, event: Event, words: &str) -> CommandResult {
        let (key, runner) = self.find(driver).ok_or_else(|| no_driver(driver))?;
        let id = &runner.id;
        tracing::info!(driver = %id, "{id}: {words}");
        self.push(key, event);
        self.queue.push(key, Work::Tick);
        Ok(())
    }

    fn reannounce(&mut self, driver: &str) -> CommandResult {
        let (_, runner) = self.find(driver).ok_or_else(|| no_driver(driver))?;
        may_announce(runner)?;
        let event = Event::Reannounce("by hand");
        self.act(driver, event, "announced again by hand")
    }

    /// Announces a driver that the cluster has lost, in this turn or not at all: no operator looks at what comes of
    /// it, and the driver may give another answer later.
    fn repair(&mut self, driver: &str, registrations: u64) -> CommandResult {
        let (_, runner) = self.find(driver).ok_or_else(|| no_driver(driver))?;
        may_announce(runner)?;
        may_repair(runner, registrations)?;
        if self.calling(runner) == Calling::This {
            let id = &runner.id;
            return Err(format!("{id} is not announced while a kubelet calls"));
        }
        let event = Event::Reannounce(LOST_IN_CLUSTER);
        let words = format!("announced again: {LOST_IN_CLUSTER}");
        self.act(driver, event, &words)
    }

    /// Withdraws a driver, unless its volumes are in use.
    pub(super) fn withdraw(
        &mut self,
        driver: &str,
        force: bool,
        volumes: &NodeVolumes,
    ) -> CommandResult {
        let (_, runner) = self.find(driver).ok_or_else(|| no_driver(driver))?;
        let (id, used) = (runner.id.clone(), runner.volumes(volumes));
        let is_done = runner.driver.record().withdrawn_by_hand;
        let fix = used.fix();
        let outcome = match used.words().filter(|_| !is_done) {
            Some(words) if force => {
                tracing::warn!(driver = %id, "{id}: withdrawn by force: {words}");
                self.act(driver, Event::WithdrawInUse, "withdrawn by hand")
            }
            Some(words) => Err(format!(
                "{id} is not withdrawn: {words}. Without the driver the kubelet could not unmount its volumes, and their pods would not end. {fix}; --force withdraws the driver all the same"
            )),
            None => self.act(driver, Event::Withdraw(used), "withdrawn by hand"),
        };
        if outcome.is_ok()
            && let Some(runner) = self.key_of(&id).and_then(|key| self.runners.get_mut(&key))
        {
            runner.drop_unclaimed(&self.layout);
        }
        outcome
    }

    /// By id, or by the name that the driver has given.
    fn find(&self, driver: &str) -> Option<(RunnerKey, &Runner)> {
        let has_name =
            |runner: &Runner| runner.driver.name().map(DriverName::as_str) == Some(driver);
        let id = |key: &RunnerKey| self.runners.get(key).map(|runner| runner.id.clone());
        let by_name = || self.keys_where(has_name).into_iter().min_by_key(id);
        let key = self.key_of(driver).or_else(by_name)?;
        Some((key, self.runners.get(&key)?))
    }
}

fn no_driver(driver: &str) -> String {
    format!("there is no driver \"{driver}\"")
}

/// A link exists that can be replaced, and the driver answers: a kubelet that calls a driver which does
/// not answer would only take it off the node.
fn may_announce(runner: &Runner) -> CommandResult {
    let (id, phase, reason) = (&runner.id, runner.driver.phase(), runner.driver.reason());
    match runner.driver.links() {
        None if phase == Phase::Withdrawn => Err(format!("{id} is withdrawn; publish it first")),
        None => Err(format!(
            "{id} has no link to announce again: {phase}: {reason}"
        )),
        Some(_) if runner.driver.is_silent() => Err(format!(
            "{id} does not answer, and an announcement would take it off the node; start the driver first: {reason}"
        )),
        Some(_) => Ok(()),
    }
}

/// The cluster can have lost only a driver that it had. An answer that the kubelet would refuse, or that is not
/// known yet, would turn the loss into one for good.
fn may_repair(runner: &Runner, registrations: u64) -> CommandResult {
    let (id, phase, reason) = (&runner.id, runner.driver.phase(), runner.driver.reason());
    if phase != Phase::Registered {
        return Err(format!(
            "{id} is not registered, and cannot be repaired: {phase}: {reason}"
        ));
    }
    if !runner.is_registration(registrations) {
        return Err(format!(
            "{id} was registered again since the cluster was asked"
        ));
    }
    if let Some(collision) = runner.driver.collision() {
        return Err(format!(
            "{id} is not announced, because the kubelet would refuse it: {collision}"
        ));
    }
    match runner.is_serving() {
        true => Ok(()),
        false => Err(format!("{id} is not announced yet: {reason}")),
    }
}
