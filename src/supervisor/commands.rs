//! The commands of clients, carried out.

use super::{Runner, RunnerKey, Supervisor, Work};
use crate::api::command::{ClientCommand, CommandResult, ManualAction};
use crate::disk::name::DriverName;
use crate::driver::phase::Phase;
use crate::driver::{Event, Record};

impl Supervisor {
    pub(super) fn carry_out(&mut self, command: ClientCommand) -> CommandResult {
        match command {
            ClientCommand::Manual { action, driver } => self.by_hand(action, &driver),
            ClientCommand::TakeUp { driver, record } => self.take_up(&driver, &record),
            ClientCommand::Reload => self.reload(),
        }
    }

    fn by_hand(&mut self, action: ManualAction, driver: &str) -> CommandResult {
        let (key, runner) = self.find(driver).ok_or_else(|| no_driver(driver))?;
        let (event, word) = match action {
            ManualAction::Reannounce => {
                may_announce(runner)?;
                (Event::Reannounce("by hand"), "announced again")
            }
            ManualAction::Withdraw => (Event::Withdraw, "withdrawn"),
            ManualAction::Publish => (Event::Publish, "published"),
        };
        let id = &runner.id;
        tracing::info!(driver = %id, "{id}: {word} by hand");
        self.push(key, event);
        self.queue.push(key, Work::Tick);
        Ok(())
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

    /// Goes on with what another instance knew of a driver, which it has left to us.
    fn take_up(&mut self, id: &str, record: &Record) -> CommandResult {
        let key = self.key_of(id).ok_or_else(|| no_driver(id))?;
        let runner = self.runners.get(&key);
        if runner.is_some_and(|runner| runner.driver.record().is_held()) {
            return Ok(());
        }
        tracing::info!(driver = id, "{id}: taken up from another instance");
        self.detach(key);
        self.add(id, Some(record));
        self.state_file.changed();
        Ok(())
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
