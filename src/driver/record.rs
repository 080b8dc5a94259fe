//! What state.json keeps of a driver, and how a new process takes it up again.

use serde::{Deserialize, Serialize};

use super::Driver;
use super::machine::Withdrawal;
use super::registration_state::{Registration, RegistrationState};
use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::os::clock::Moment;
use crate::os::process::Process;

/// A driver as state.json has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: Option<DriverName>,
    /// The driver as last registered, with the kubelet that did it.
    pub(crate) registration: Option<Registration>,
    pub(crate) link: Option<Identity>,
    pub(crate) withdrawn_by_hand: bool,
}

impl Record {
    /// What still holds when the directories change: an operator has withdrawn the driver.
    pub(crate) fn by_hand(self) -> Option<Record> {
        self.withdrawn_by_hand.then_some(Record {
            name: self.name,
            withdrawn_by_hand: true,
            ..Record::default()
        })
    }

    /// A kubelet holds the driver, or an operator has withdrawn it: it is kept even while it is away.
    pub(crate) fn is_held(&self) -> bool {
        self.registration.is_some() || self.withdrawn_by_hand
    }
}

impl Driver {
    pub(crate) fn record(&self) -> Record {
        Record {
            name: self.name.clone(),
            registration: self.registered().cloned(),
            link: self.link.identity().cloned(),
            withdrawn_by_hand: self.withdrawal == Some(Withdrawal::ByHand),
        }
    }

    /// Takes up a record, as far as it still holds. `link` is the link of ours that exists at the
    /// recorded path now. A kubelet without a pid counts as running.
    pub(crate) fn restore(
        &mut self,
        record: &Record,
        link: Option<Identity>,
        runs: impl Fn(Process) -> bool,
        now: Moment,
    ) {
        self.name.clone_from(&record.name);
        if record.withdrawn_by_hand {
            self.withdrawal = Some(Withdrawal::ByHand);
        }
        let Some(found) = link else { return };
        let recorded = record.link.as_ref();
        if !recorded.is_some_and(|link| link.is_same_object(&found)) {
            // The look after the socket is served tells whose link this is.
            return;
        }
        self.link.exists(found);
        match &record.registration {
            Some(registered) if registered.kubelet.is_none_or(runs) => {
                self.registration = RegistrationState::Registered(registered.clone());
            }
            Some(_) | None => self.announcer.published(now),
        }
    }
}
