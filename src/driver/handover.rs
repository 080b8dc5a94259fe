//! What passes from a silent driver to a driver that answers under the same name.
//!
//! A driver that restarts in another directory is a new driver to us, with another socket. The kubelet
//! holds the old one, whose socket no process serves. The link and the registration pass to the new
//! driver, and the kubelet learns the new endpoint once.

use super::Driver;
use super::announcer::Announcer;
use super::leaving::Leaving;
use super::pace::ChangePace;
use super::registration_state::{Registration, RegistrationState, Unregistered};
use crate::disk::identity::Identity;
use crate::os::clock::Moment;

/// What a driver gives up together with its name.
#[derive(Debug)]
pub(crate) struct Handover {
    announcer: Announcer,
    changes: ChangePace,
    /// The registration and its link; none when no kubelet holds the driver.
    held: Option<(Registration, Option<Identity>)>,
}

impl Driver {
    /// Gives up the name, with its link and registration, to another driver. A driver that answers or
    /// was not asked yet keeps its name. A registered driver gives it up only to a driver that
    /// `can_take_over`.
    pub(crate) fn give_up_name(&mut self, can_take_over: bool) -> Option<Handover> {
        if !self.is_silent() || (self.is_registered() && !can_take_over) {
            return None;
        }
        let link = self.link.identity().cloned();
        let held = self.registered().cloned().map(|held| (held, link));
        self.registration = RegistrationState::Unregistered(Unregistered::NotYet);
        self.leaving = Leaving::No;
        self.name = None;
        self.asked = None;
        self.not_before = None;
        self.socket.cleared();
        self.link.cleared();
        Some(Handover {
            announcer: std::mem::take(&mut self.announcer),
            changes: std::mem::take(&mut self.changes),
            held,
        })
    }

    /// The driver answers and should be registered, so it may get the link of a silent driver.
    pub(crate) fn can_take_over(&self) -> bool {
        self.answer().is_some() && self.withdrawal.is_none()
    }

    /// Takes what another driver has given up.
    pub(crate) fn inherit(&mut self, handover: Handover, now: Moment) {
        self.announcer = handover.announcer;
        self.changes = handover.changes;
        let Some((registration, link)) = handover.held else {
            self.announcer.renewed(now);
            return;
        };
        self.registration = RegistrationState::Registered(registration);
        self.not_before = None;
        self.link.cleared();
        if let Some(link) = link {
            self.link.exists(link);
        }
    }
}
