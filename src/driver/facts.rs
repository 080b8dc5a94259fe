//! What is known of a driver, for those who show it or act on it.

use super::answer::Answer;
use super::machine::{DriverState, LinkPolicy};
use super::phase::Phase;
use super::registration_state::{Registration, RegistrationState, Unregistered};
use super::{AdvertisedInfo, Driver};
use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::disk::obstacle::Obstacle;
use crate::grpc::proto::control::Cause;
use crate::os::process::Process;

impl Driver {
    pub(crate) fn phase(&self) -> Phase {
        if self.withdrawal.is_some() {
            return Phase::Withdrawn;
        }
        if self.link_policy() == LinkPolicy::Wanted
            && self.obstacle().is_some_and(Obstacle::is_conflict)
        {
            return Phase::Conflict;
        }
        match (&self.registration, &self.state) {
            (RegistrationState::Registered(_), _) => Phase::Registered,
            (_, DriverState::Asking { .. } | DriverState::Silent { .. }) => Phase::WaitingForDriver,
            (RegistrationState::Rejected { .. }, DriverState::Answering { .. }) => Phase::Rejected,
            (RegistrationState::Unregistered(_), DriverState::Answering { .. }) => {
                Phase::WaitingForKubelet
            }
        }
    }

    /// The driver's answer, while it answers under its name: what GetInfo may tell.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match &self.state {
            DriverState::Answering { answer, .. } => self.new_name().is_none().then_some(answer),
            DriverState::Asking { .. } | DriverState::Silent { .. } => None,
        }
    }

    /// The driver was asked, and does not answer under its name.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.state, DriverState::Silent { .. }) || self.new_name().is_some()
    }

    /// The last answer that is known, to be shown.
    pub(crate) fn last_answer(&self) -> Option<&Answer> {
        self.answer().or(self.registered_answer())
    }

    /// The driver as the kubelet has registered it.
    pub(crate) fn registered_answer(&self) -> Option<&Answer> {
        Some(&self.registered()?.answer)
    }

    pub(super) fn registered(&self) -> Option<&Registration> {
        match &self.registration {
            RegistrationState::Registered(registration) => Some(registration),
            RegistrationState::Unregistered(_) | RegistrationState::Rejected { .. } => None,
        }
    }

    /// Another driver of ours holds the name.
    pub(crate) fn name_is_taken(&self) -> bool {
        matches!(self.socket.obstacle(), Some(Obstacle::NameTaken(_)))
    }

    /// The words of a kubelet that rejected the driver.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match &self.registration {
            RegistrationState::Rejected { error, .. } => Some(error),
            RegistrationState::Unregistered(_) | RegistrationState::Registered(_) => None,
        }
    }

    /// The kubelet watches a directory that was deleted.
    pub(crate) fn waits_for_a_restart_of_the_kubelet(&self) -> bool {
        self.registration == RegistrationState::Unregistered(Unregistered::DirectoryReplaced)
    }

    /// The code for programs, if more than a moment of patience is called for.
    pub(crate) fn why_the_kubelet_is_late(&self) -> Option<Cause> {
        if self.waits_for_a_restart_of_the_kubelet() {
            Some(Cause::DirectoryReplaced)
        } else {
            self.is_uncalled().then_some(Cause::KubeletSilent)
        }
    }

    /// A kubelet runs, and may wait in its own back-off for the link's path.
    pub(super) fn is_uncalled(&self) -> bool {
        use Unregistered::{KubeletEnded, NotYet};
        let is_plain = matches!(
            self.registration,
            RegistrationState::Unregistered(NotYet | KubeletEnded)
        );
        is_plain && self.announcer.is_unanswered()
    }

    pub(crate) fn advertised(&self) -> &AdvertisedInfo {
        &self.advertised
    }

    pub(crate) fn name(&self) -> Option<&DriverName> {
        self.name.as_ref()
    }

    /// The socket's name, while the socket exists.
    pub(crate) fn serves(&self) -> Option<(&DriverName, &Identity)> {
        self.name.as_ref().zip(self.socket.identity())
    }

    /// Socket and link exist: a kubelet can call.
    pub(super) fn is_published(&self) -> bool {
        self.link.identity().is_some() && self.socket.identity().is_some()
    }

    /// The link, when it exists.
    pub(crate) fn links(&self) -> Option<(&DriverName, &Identity)> {
        self.name.as_ref().zip(self.link.identity())
    }

    /// A kubelet holds the driver, whatever its phase is.
    pub(crate) fn is_registered(&self) -> bool {
        self.registered().is_some()
    }

    /// The kubelet that holds the registration or the refusal.
    pub(crate) fn kubelet(&self) -> Option<Process> {
        match &self.registration {
            RegistrationState::Registered(Registration { kubelet, .. })
            | RegistrationState::Rejected { kubelet, .. } => *kubelet,
            RegistrationState::Unregistered(_) => None,
        }
    }

    /// What keeps the socket or the link from being created.
    pub(crate) fn obstacle(&self) -> Option<&Obstacle> {
        self.socket.obstacle().or(self.link.obstacle())
    }

    /// Another process serves the socket that our link would lead to.
    pub(super) fn others_serve(&self) -> bool {
        self.socket.obstacle().is_some_and(Obstacle::is_a_server)
    }
}
