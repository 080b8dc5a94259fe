//! A run of `verify`: looks at the cluster, tells the daemon what it found, and has lost drivers announced.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep, sleep_until};

use super::api_server::Freshness;
use super::comparison::Registered;
use super::look::{Look, Told};
use super::memory::Memory;
use super::repair::{Decision, Now};
use super::unasked::Unasked;
use crate::api::command::ManualAction;
use crate::api::control::{Client, ClientError};
use crate::config::{NodeName, Settings};
use crate::disk::runtime_dir::control_socket;
use crate::os::boot;

/// The time between the two looks that must both miss a driver.
const TWICE: Duration = Duration::from_secs(10);
/// How long the cluster is looked at after an announcement.
const AFTERWARDS: Duration = Duration::from_secs(30);
/// The first and the longest pause between these looks.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(5);
/// What a run needs to know.
pub(crate) struct Verification {
    pub(crate) settings: Settings,
    /// The runtime directory of the daemon.
    pub(crate) runtime: PathBuf,
    /// From the command line, or else from the settings.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// From the command line or the settings, or else found out once in a run.
    pub(crate) node: OnceCell<NodeName>,
    pub(crate) timeout: Duration,
    /// Asked for once in a run.
    pub(crate) told: OnceCell<Told>,
    /// The daemon is told what was found.
    pub(crate) reports: bool,
    /// The operator named the node for this run.
    pub(crate) node_is_named: bool,
    /// Takes each remark about the run when it is made: a run that fails later has made it all the same.
    pub(crate) say: fn(&str),
}

/// Why a run has no result.
#[derive(Debug, Error)]
pub(crate) enum VerificationError {
    #[error(transparent)]
    Daemon(#[from] ClientError),
    #[error(transparent)]
    Unasked(#[from] Unasked),
    #[error(
        "the daemon is of an older version, and does not say with what a driver was registered: systemctl restart node-storage-driver-registrar"
    )]
    OldDaemon,
}

impl Verification {
    /// Compares, and tells the daemon.
    pub(crate) async fn compare(&self) -> Result<Look, VerificationError> {
        let look = self.first_look().await?;
        self.tell(&look).await;
        Ok(look)
    }

    /// Compares, has each lost driver announced that may be, and looks what came of it.
    pub(crate) async fn repair(&self) -> Result<Look, VerificationError> {
        let first = self.first_look().await?;
        self.tell(&first).await;
        let mut memory = match Memory::take(&self.runtime, now()) {
            Ok(memory) => memory,
            Err(error) => {
                (self.say)(&format!("nothing is repaired: {error}"));
                return Ok(first);
            }
        };
        if let Some(why) = &memory.distrust {
            (self.say)(&format!("the memory of repairs does not count: {why}"));
        }
        let lost = first.decisions(&memory);
        let may_announce = lost.iter().any(|(_, what)| *what == Decision::Announce);
        let look = if may_announce {
            sleep(TWICE).await;
            let second = self.look(Freshness::Current).await?;
            let announced = self.announce_lost(&first, &second, &mut memory).await;
            let after = self.look_afterwards(second, &announced, &memory).await;
            self.tell(&after).await;
            after
        } else {
            for (driver, why_not) in lost {
                self.say_left(driver, &why_not);
            }
            first
        };
        if memory.repairs.forget_helped(&look.report, now())
            && let Err(error) = memory.save()
        {
            (self.say)(&error.to_string());
        }
        Ok(look)
    }

    fn say_left(&self, driver: &Registered, decision: &Decision) {
        if let Decision::Leave(why) = decision {
            (self.say)(&format!("{} is not announced: {why}", driver.name));
        }
    }

    /// Announces each driver that both looks miss, as far as the rules allow it. Returns their names.
    async fn announce_lost(
        &self,
        first: &Look,
        second: &Look,
        memory: &mut Memory,
    ) -> BTreeSet<String> {
        let mut announced = BTreeSet::new();
        for (driver, decision) in second.decisions(memory) {
            let name = &driver.name;
            if decision != Decision::Announce {
                self.say_left(driver, &decision);
                continue;
            }
            let outcome = match first.has_lost(driver) {
                true => self.announce(driver, memory).await,
                false => Err("the first of two looks did not miss this registration".to_owned()),
            };
            match outcome {
                Ok(()) => {
                    (self.say)(&format!("{name} is announced"));
                    announced.insert(name.clone());
                }
                Err(why) => (self.say)(&format!("{name} is not announced: {why}")),
            }
        }
        announced
    }

    /// Has the daemon announce the driver. Written down first: an announcement that no run remembers could be
    /// repeated without end.
    async fn announce(&self, driver: &Registered, memory: &mut Memory) -> Result<(), String> {
        let before = memory.repairs.announced(&driver.name, now());
        if let Err(error) = memory.save() {
            memory.repairs.undo(&driver.name, before);
            return Err(error.to_string());
        }
        let asked = async {
            let mut daemon = self.daemon().await?;
            let repair = ManualAction::Repair {
                registrations: driver.registrations,
            };
            daemon.by_hand(repair, &driver.id).await
        };
        let error = match asked.await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        // A daemon that did not answer may have announced the driver.
        if let ClientError::Refused(_) | ClientError::NoDaemon(_) = error {
            memory.repairs.undo(&driver.name, before);
            memory.save().map_err(|error| error.to_string())?;
        }
        Err(error.to_string())
    }

    /// Looks until the cluster has the announced drivers, for 30 s. The report says which of them it has.
    async fn look_afterwards(
        &self,
        before: Look,
        announced: &BTreeSet<String>,
        memory: &Memory,
    ) -> Look {
        if announced.is_empty() {
            return before;
        }
        let deadline = Instant::now() + AFTERWARDS;
        let mut pause = SOON;
        let mut after = loop {
            sleep_until(deadline.min(Instant::now() + pause)).await;
            pause = LATER.min(pause * 2);
            let look = self.look(Freshness::Current).await;
            let is_last = Instant::now() >= deadline;
            match look {
                Ok(look) if is_last || announced.iter().all(|name| look.has(name)) => break look,
                Err(error) if is_last => {
                    (self.say)(&format!(
                        "cannot look at the cluster after the announcement: {error}"
                    ));
                    return before;
                }
                Ok(_) | Err(_) => {}
            }
        };
        for name in announced {
            let is_repaired = after.has(name);
            (self.say)(&match is_repaired {
                true => format!("{name} is in the cluster again"),
                false => format!(
                    "{name} is still not in the cluster {} s after the announcement; the next announcement is possible in {}: see what the kubelet's log says about CSINode",
                    AFTERWARDS.as_secs(),
                    memory.repairs.wait_in_words(name, now())
                ),
            });
            after.mark(name, is_repaired, &before.report.drivers);
        }
        after
    }

    pub(super) async fn daemon(&self) -> Result<Client, ClientError> {
        Client::connect(&control_socket(&self.runtime)).await
    }

    /// Tells the daemon what was found. A daemon that does not take it is no reason to fail.
    async fn tell(&self, look: &Look) {
        if !self.reports {
            return;
        }
        // Readiness goes by a report, so a mistake must not become one.
        if look.may_be_mistaken {
            (self.say)(&format!(
                "the daemon is not told: it is not certain that Node {} is this machine's",
                look.report.node
            ));
            return;
        }
        let told = async {
            let mut daemon = self.daemon().await?;
            for report in look.findings() {
                daemon.report_cluster(report).await?;
            }
            Ok::<(), ClientError>(())
        };
        if let Err(error) = told.await {
            (self.say)(&format!("the daemon does not take the report: {error}"));
        }
    }
}

pub(super) fn now() -> Now {
    Now {
        time: Timestamp::now(),
        uptime: boot::uptime(),
    }
}
