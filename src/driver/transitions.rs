//! Each event, and what becomes known by it.

use std::time::Duration;

use super::answer::{Answer, AnswerChange};
use super::machine::{CALL_CHECK, Driver, DriverState, LinkPolicy, PendingChange, Withdrawal};
use super::refusal;
use super::registration_state::{Registration, RegistrationState, Unregistered};
use super::{Actions, AdvertisedInfo, Calling, Put, Removal, Seen};
use crate::disk::identity::Identity;
use crate::grpc::proto::control::Cause;
use crate::os::clock::Moment;
use crate::os::process::Process;

/// The kubelet de-registers by the driver's name within a second of a link's end. A driver with
/// another name waits until that is over.
const GAP: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn driver_answered(&mut self, answer: Answer, now: Moment) {
        let limit = answer.max_volumes;
        self.answers(answer, limit, now);
    }

    pub(super) fn driver_changed(&mut self, answer: Answer, now: Moment) {
        let limit = match (&self.state, &self.registration) {
            (DriverState::Answering { limit, .. }, _) => *limit,
            // The driver has not restarted while we were away: the cluster knows its first limit.
            (_, RegistrationState::Registered(registration)) => registration.answer.max_volumes,
            _ => answer.max_volumes,
        };
        self.answers(answer, limit, now);
    }

    fn answers(&mut self, answer: Answer, limit: i64, now: Moment) {
        self.name.get_or_insert_with(|| answer.name.clone());
        if self.withdrawal == Some(Withdrawal::Absence) {
            self.withdrawal = None;
        }
        let is_news = self
            .answer()
            .is_none_or(|known| known.change_to(&answer) != AnswerChange::None);
        if is_news && !self.is_registered() {
            self.announcer.renewed(now);
        }
        self.state = DriverState::Answering { answer, limit };
        // The driver that holds the name keeps it from a silent driver, and may not from this one.
        if self.name_is_taken() {
            self.socket.look_again();
        }
    }

    /// The driver does not answer, or is `refused` and not asked at all.
    pub(super) fn driver_silent(&mut self, why: String, refused: bool, now: Moment) {
        let since = match &self.state {
            DriverState::Silent { since, .. } => *since,
            DriverState::Asking { .. } | DriverState::Answering { .. } => now,
        };
        self.state = DriverState::Silent {
            since,
            why,
            refused,
        };
    }

    /// A registration would lead the kubelet, with the secrets of its calls, to another process.
    pub(super) fn driver_taken(&mut self, why: String, now: Moment) {
        self.registration = RegistrationState::Unregistered(Unregistered::NotYet);
        self.driver_silent(why, true, now);
    }

    pub(super) fn link_published(&mut self, identity: Identity, now: Moment) {
        self.link.exists(identity);
        self.not_before = None;
        self.announcer.published(now);
    }

    pub(super) fn socket_seen(&mut self, seen: Seen, now: Moment) {
        match (self.socket.identity(), seen) {
            (Some(_), Seen::Ours(found)) => self.socket.exists(found),
            (Some(_), Seen::NotOurs) => self.socket.disturbed(now),
            (None, _) => self.socket.look_again(),
        }
    }

    pub(super) fn link_seen(&mut self, seen: Seen, now: Moment) {
        match (self.link.identity(), seen) {
            (Some(ours), Seen::Ours(found)) if found.is_same_object(ours) => {
                self.link.exists(found);
            }
            // Another process made the very link that we would have made: nothing to repair.
            (Some(_), Seen::Ours(found)) => {
                self.link_changed(now);
                self.link.exists(found);
            }
            (Some(_), Seen::NotOurs) => {
                self.link_changed(now);
                self.link.disturbed(now);
            }
            // A link to a socket that another process serves is not ours, though it looks like ours.
            (None, Seen::Ours(_)) if self.others_serve() => {}
            (None, Seen::Ours(found)) => {
                self.link.exists(found);
                self.announcer.published(now);
            }
            (None, Seen::NotOurs) => self.link.look_again(),
        }
    }

    /// The kubelet de-registers what it found through a link that no longer exists.
    fn link_changed(&mut self, now: Moment) {
        if !matches!(self.registration, RegistrationState::Unregistered(_)) {
            self.registration = RegistrationState::Unregistered(Unregistered::LinkChanged);
        }
        self.announcer.renewed(now);
    }

    pub(super) fn kubelet_asked(&mut self) {
        self.asked = self.answer().cloned();
        self.announcer.asked();
    }

    pub(super) fn kubelet_registered(
        &mut self,
        kubelet: Option<Process>,
        through: Option<&Identity>,
        told: Option<AdvertisedInfo>,
    ) {
        self.held_until = None;
        let asked = self.asked.take();
        let asked = asked.filter(|asked| self.name.as_ref() == Some(&asked.name));
        // A kubelet de-registers what it found through a link that no longer exists. If it has
        // seen the new one, it says yes once more; if not, we announce.
        let link = self.link.identity();
        let holds = link.is_some_and(|link| through.is_none_or(|asked| asked.is_same_object(link)));
        if holds && let Some(answer) = asked.or_else(|| self.last_answer().cloned()) {
            if self.new_name().is_none()
                && let DriverState::Answering { limit, .. } = &mut self.state
            {
                *limit = answer.max_volumes;
            }
            self.registration = RegistrationState::Registered(Registration {
                kubelet,
                answer,
                advertised: told.unwrap_or_else(|| self.advertised.clone()),
            });
            self.announcer.settled();
        }
    }

    pub(super) fn kubelet_rejected(
        &mut self,
        kubelet: Option<Process>,
        error: String,
        now: Moment,
    ) {
        self.held_until = None;
        self.asked = None;
        // The kubelet refuses a second path to the driver that it holds; the first one is kept.
        let registered = self.registered();
        let is_held = registered.is_some_and(|registration| registration.kubelet == kubelet);
        if is_held && refusal::cause(&error) == Cause::AlreadyRegistered {
            return;
        }
        // Without a link, the kubelet speaks of one that is gone.
        if self.link.identity().is_some() {
            self.registration = RegistrationState::Rejected { kubelet, error };
            self.announcer.refused(now);
        }
    }

    pub(super) fn kubelet_ended(&mut self, process: Process, now: Moment) {
        let held = self.kubelet() == Some(process);
        if !held && !self.waits_for_a_restart_of_the_kubelet() {
            return;
        }
        self.registration = RegistrationState::Unregistered(Unregistered::KubeletEnded);
        // Mostly that is half of a restart, whose other half is not visible where the root directory is
        // not the kubelet's.
        self.announcer.started(now);
    }

    pub(super) fn kubelet_started(&mut self, now: Moment) {
        match &self.registration {
            // The end of this process is seen by itself.
            RegistrationState::Registered(Registration {
                kubelet: Some(_), ..
            }) => return,
            RegistrationState::Registered(Registration { kubelet: None, .. })
            | RegistrationState::Rejected { .. }
            | RegistrationState::Unregistered(Unregistered::DirectoryReplaced) => {
                self.registration = RegistrationState::Unregistered(Unregistered::KubeletEnded);
            }
            RegistrationState::Unregistered(_) => {}
        }
        self.announcer.started(now);
    }

    pub(super) fn directory_replaced(&mut self, now: Moment) {
        // The link was looked at first: a registration that is left came through the new directory.
        if !self.is_registered() {
            self.registration = RegistrationState::Unregistered(Unregistered::DirectoryReplaced);
            self.announcer.renewed(now);
        }
    }

    pub(super) fn ticked(
        &mut self,
        kubelet_there: bool,
        calling: Calling,
        now: Moment,
        actions: &mut Actions,
    ) {
        self.not_before = self.not_before.filter(|at| now < *at);
        let Some(name) = self.name.clone() else {
            return;
        };
        // While another process serves at our socket's path, a link to it is not ours to announce.
        if !self.is_published() || self.link_policy() != LinkPolicy::Wanted {
            return;
        }
        if let Some(change) = self.pending_change() {
            if self.may_announce(&change, calling, now) {
                self.requested = None;
                let news = Unregistered::Announced(change.words());
                self.registration = RegistrationState::Unregistered(news);
                self.announcer.renewed(now);
                actions.put = Some(Put::Announce(name));
            }
            return;
        }
        if self.is_registered() {
            return;
        }
        if self
            .announcer
            .decides_to_announce(now, kubelet_there, calling)
        {
            actions.put = Some(Put::Announce(name));
        }
    }

    /// Whether a change to a registered driver is announced now, which the pace then counts.
    fn may_announce(&mut self, change: &PendingChange, calling: Calling, now: Moment) -> bool {
        let is_requested = matches!(change, PendingChange::Requested(_));
        let is_urgent = matches!(change, PendingChange::Endpoint(_));
        if !is_requested && self.changes.holds(is_urgent, now) {
            return false;
        }
        if calling == Calling::This {
            self.held_until = Some(now + CALL_CHECK);
            return false;
        }
        self.held_until = None;
        if !is_requested {
            self.changes.announced(now);
        }
        true
    }

    pub(super) fn published_by_hand(&mut self, now: Moment) {
        if self.withdrawal.take().is_some() {
            self.announcer.renewed(now);
            self.socket.look_again();
        }
    }

    /// A request that comes while the driver is asked for the first time waits for its answer.
    pub(super) fn announcement_requested(&mut self, reason: &'static str, now: Moment) {
        if !self.is_silent() && self.link.identity().is_some() {
            self.requested = Some(reason);
            self.announcer.renewed(now);
        }
    }

    pub(super) fn release_name(&mut self, now: Moment, actions: &mut Actions) {
        if self.link.identity().is_some() {
            self.not_before = Some(now + GAP);
        }
        self.unlink(actions);
        // Also without a socket of ours: a dead one of an earlier run may be at its path.
        if let Some(name) = self.name.clone() {
            let removal = Removal::Socket(name, self.socket.identity().cloned());
            actions.remove.push(removal);
        }
        // What blocked the old name does not block the new one.
        self.link.cleared();
        self.socket.cleared();
        self.registration = RegistrationState::Unregistered(Unregistered::NotYet);
        self.announcer.renewed(now);
    }
}
