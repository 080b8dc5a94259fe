//! What of a driver must survive us, and how it is taken up again.

use serde::{Deserialize, Serialize};

use super::machine::Withdrawal;
use super::registration_state::{Registration, RegistrationState};
use super::{AdvertisedInfo, Driver};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::driver::answer::Answer;
use crate::os::clock::Moment;
use crate::os::process::Process;

/// A driver as it is written down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) name: Option<DriverName>,
    /// The driver as last registered, with the kubelet that did it.
    pub(crate) registration: Option<Registered>,
    /// Which link of the driver, also while it does not stand.
    #[serde(default)]
    pub(crate) slot: LinkAlias,
    pub(crate) link: Option<Identity>,
    /// Who has called through the link's path.
    #[serde(default)]
    pub(crate) called_by: Option<Process>,
    pub(crate) withdrawn_by_hand: bool,
}

impl Record {
    /// What is left of it in other directories: that somebody has withdrawn the driver.
    pub(crate) fn by_hand(self) -> Option<Record> {
        self.withdrawn_by_hand.then_some(Record {
            name: self.name,
            registration: None,
            slot: LinkAlias::default(),
            link: None,
            called_by: None,
            withdrawn_by_hand: true,
        })
    }

    /// Somebody counts on the driver even while it is away: a kubelet, or whoever withdrew it.
    pub(crate) fn is_held(&self) -> bool {
        self.registration.is_some() || self.withdrawn_by_hand
    }
}

/// A registration that stood when the record was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registered {
    pub(crate) answer: Answer,
    pub(crate) terms: AdvertisedInfo,
    pub(crate) kubelet: Option<Process>,
}

impl Driver {
    pub(crate) fn record(&self) -> Record {
        let registration = match &self.registration {
            RegistrationState::Registered(Registration {
                kubelet,
                answer,
                terms,
            }) => Some(Registered {
                answer: answer.clone(),
                terms: terms.clone(),
                kubelet: *kubelet,
            }),
            RegistrationState::Unregistered(_) | RegistrationState::Rejected { .. } => None,
        };
        Record {
            name: self.name.clone(),
            registration,
            slot: self.slot,
            link: self.link.identity().cloned(),
            called_by: self.announcer.caller(),
            withdrawn_by_hand: self.withdrawal == Some(Withdrawal::ByHand),
        }
    }

    /// Takes up what was written down, as far as it still holds: `link` is the link of ours that
    /// stands at the recorded place now. A kubelet without a pid counts as one that runs.
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
        if let Some(caller) = record.called_by.filter(|caller| runs(*caller)) {
            // It may hold the path of this link, and is not to meet another one beside it.
            self.announcer.asked(Some(caller));
            self.slot = record.slot;
        }
        let Some(found) = link else { return };
        self.slot = record.slot;
        let recorded = record.link.as_ref();
        if !recorded.is_some_and(|link| link.is_same_object(&found)) {
            // Whose it is shows when the socket is served.
            return;
        }
        self.link.exists(found);
        match &record.registration {
            Some(registered) if registered.kubelet.is_none_or(runs) => {
                self.registration = RegistrationState::Registered(Registration {
                    kubelet: registered.kubelet,
                    answer: registered.answer.clone(),
                    terms: registered.terms.clone(),
                });
            }
            Some(_) | None => self.announcer.adopted(now),
        }
    }
}
