//! What passes from a driver that is silent to one that answers under the same name.
//!
//! A driver that comes back in another directory is another driver of ours, with another socket. The
//! kubelet holds the old one, whose socket nobody serves. The link and the registration pass to the
//! new one, and the kubelet hears of the new endpoint once.

use super::Driver;
use super::announcer::Announcer;
use super::machine::DriverState;
use super::pace::Pace;
use super::registration_state::{Registration, RegistrationState, Unregistered};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::os::clock::Moment;

/// What a driver leaves with its name.
#[derive(Debug)]
pub(crate) struct Estate {
    /// Which link, and what a kubelet may have made of its path. A kubelet before 1.36 that has asked
    /// through it lets go of it by the driver's name, so that no other path may stand beside it.
    slot: LinkAlias,
    announcer: Announcer,
    changes: Pace,
    /// None when no kubelet holds the driver.
    held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    registration: Registration,
    link: Option<Identity>,
}

impl Driver {
    /// Gives up the name for a sibling, and with it all that stands under it. A driver that answers,
    /// or was not asked yet, keeps it; one that a kubelet holds gives it up only to an heir who
    /// `can_take_over`.
    pub(crate) fn give_up_name(&mut self, can_take_over: bool) -> Option<Estate> {
        if !self.is_silent() || (self.is_registered() && !can_take_over) {
            return None;
        }
        let link = self.link.identity().cloned();
        let before = std::mem::replace(
            &mut self.registration,
            RegistrationState::Unregistered(Unregistered::NotYet),
        );
        let held = match before {
            RegistrationState::Registered(registration) => Some(Held { registration, link }),
            RegistrationState::Unregistered(_) | RegistrationState::Rejected { .. } => None,
        };
        self.name = None;
        self.asked = None;
        self.not_before = None;
        self.socket.cleared();
        self.link.cleared();
        Some(Estate {
            slot: std::mem::take(&mut self.slot),
            announcer: std::mem::replace(&mut self.announcer, Announcer::new()),
            changes: std::mem::take(&mut self.changes),
            held,
        })
    }

    /// The driver answers and is to be registered, so that it may have the link of a silent sibling.
    pub(crate) fn can_take_over(&self) -> bool {
        matches!(self.state, DriverState::Answering { .. }) && self.withdrawal.is_none()
    }

    /// Goes on with what a sibling has left.
    pub(crate) fn inherit(&mut self, estate: Estate, now: Moment) {
        self.slot = estate.slot;
        self.announcer = estate.announcer;
        self.changes = estate.changes;
        let Some(held) = estate.held else {
            self.announcer.renewed(now);
            return;
        };
        self.registration = RegistrationState::Registered(held.registration);
        self.not_before = None;
        self.link.cleared();
        if let Some(link) = held.link {
            self.link.exists(link);
        }
    }
}
