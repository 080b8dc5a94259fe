//! Each event, and what becomes known by it.

use std::time::Duration;

use super::announcer::Verdict;
use super::refusal::Refusal;
use super::{
    AdvertisedInfo, CALL_CHECK, Calling, Driver, DriverState, Effect, LinkPolicy, PendingChange,
    Registration, RegistrationState, Seen, Unregistered, Withdrawal,
};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::obstacle::Obstacle;
use crate::driver::answer::{Answer, AnswerChange};
use crate::os::clock::Moment;
use crate::os::process::Process;

/// The kubelet de-registers by the driver's name within a second of a link's end. A link with
/// another name, or a driver with another name, waits until that is over.
const GAP: Duration = Duration::from_secs(2);

impl Driver {
    pub(super) fn driver_answered(&mut self, answer: Answer, now: Moment) -> Vec<Effect> {
        let limit = answer.max_volumes;
        self.heard(answer, limit, now)
    }

    pub(super) fn driver_changed(&mut self, answer: Answer, now: Moment) -> Vec<Effect> {
        let limit = match (&self.contact, &self.standing) {
            (DriverState::Answering { limit, .. }, _) => *limit,
            // It has run on while we were away, and the cluster knows it as it came.
            (_, RegistrationState::Registered(registration)) => registration.answer.max_volumes,
            _ => answer.max_volumes,
        };
        self.heard(answer, limit, now)
    }

    fn heard(&mut self, answer: Answer, limit: i64, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.name.as_ref().is_some_and(|name| *name != answer.name) {
            effects = self.release_name(now);
        }
        self.name = Some(answer.name.clone());
        if self.withdrawal == Some(Withdrawal::Absence) {
            self.withdrawal = None;
        }
        let news = self
            .answer()
            .is_none_or(|known| known.change_to(&answer) != AnswerChange::None);
        if news && !self.is_registered() {
            self.announcer.renewed(now);
        }
        self.slow = None;
        self.contact = DriverState::Answering { answer, limit };
        // A sibling keeps its name from a driver that is silent, and may not from one that answers.
        if self.name_is_taken() {
            self.socket.look_again();
        }
        effects
    }

    /// It is not silent: whoever waits for its name waits on, and what stands is left alone.
    pub(super) fn driver_slow(&mut self, why: String) -> Vec<Effect> {
        self.contact = DriverState::Untried;
        self.slow = Some(why);
        Vec::new()
    }

    /// It does not answer, or is `refused` and not even asked.
    pub(super) fn driver_silent(&mut self, why: String, refused: bool, now: Moment) -> Vec<Effect> {
        let since = match &self.contact {
            DriverState::Silent { since, .. } => *since,
            DriverState::Untried | DriverState::Answering { .. } => now,
        };
        self.slow = None;
        self.contact = DriverState::Silent {
            since,
            why,
            refused,
        };
        Vec::new()
    }

    /// A registration would lead the kubelet, with the secrets of its calls, to somebody else.
    pub(super) fn driver_taken(&mut self, why: String, now: Moment) -> Vec<Effect> {
        self.standing = RegistrationState::Unregistered(Unregistered::NotYet);
        self.driver_silent(why, true, now)
    }

    pub(super) fn socket_served(&mut self, identity: Identity) -> Vec<Effect> {
        self.socket.stood(identity);
        Vec::new()
    }

    pub(super) fn socket_blocked(&mut self, obstacle: Obstacle, now: Moment) -> Vec<Effect> {
        self.socket.blocked(obstacle, now);
        Vec::new()
    }

    pub(super) fn link_published(&mut self, identity: Identity, now: Moment) -> Vec<Effect> {
        self.link.stood(identity);
        self.not_before = None;
        self.announcer.published(now);
        Vec::new()
    }

    pub(super) fn link_blocked(&mut self, obstacle: Obstacle, now: Moment) -> Vec<Effect> {
        self.link.blocked(obstacle, now);
        Vec::new()
    }

    pub(super) fn socket_seen(&mut self, seen: &Seen, now: Moment) -> Vec<Effect> {
        match (self.socket.identity(), seen) {
            (Some(_), Seen::Ours(found)) => self.socket.stood(found.clone()),
            (Some(_), Seen::NotOurs) => self.socket.disturbed(now),
            (None, _) => self.socket.look_again(),
        }
        Vec::new()
    }

    pub(super) fn link_seen(&mut self, seen: Seen, now: Moment) -> Vec<Effect> {
        match (self.link.identity(), seen) {
            (Some(ours), Seen::Ours(found)) if found.is_same_object(ours) => self.link.stood(found),
            // Somebody made the very link that we would have made: nothing to repair.
            (Some(_), Seen::Ours(found)) => {
                self.link_changed(now);
                self.link.stood(found);
            }
            (Some(_), Seen::NotOurs) => {
                self.link_changed(now);
                self.link.disturbed(now);
            }
            // A link to a socket that others serve is theirs, though it looks like ours.
            (None, Seen::Ours(_)) if self.others_serve() => {}
            (None, Seen::Ours(found)) => {
                self.link.stood(found);
                self.announcer.adopted(now);
            }
            (None, Seen::NotOurs) => self.link.look_again(),
        }
        Vec::new()
    }

    /// The kubelet de-registers what it found through a link that is no longer there.
    pub(super) fn link_changed(&mut self, now: Moment) {
        if matches!(
            self.standing,
            RegistrationState::Registered(_) | RegistrationState::Rejected { .. }
        ) {
            self.standing = RegistrationState::Unregistered(Unregistered::LinkChanged);
        }
        self.announcer.renewed(now);
    }

    pub(super) fn kubelet_asked(&mut self, caller: Option<Process>) -> Vec<Effect> {
        self.asked = self.answer().cloned();
        self.announcer.asked(caller);
        Vec::new()
    }

    pub(super) fn kubelet_registered(
        &mut self,
        kubelet: Option<Process>,
        through: Option<&Identity>,
        told: Option<AdvertisedInfo>,
    ) -> Vec<Effect> {
        self.held_until = None;
        let asked = self.asked.take();
        let asked = asked.filter(|asked| self.name.as_ref() == Some(&asked.name));
        // A kubelet de-registers what it found through a link that is no longer there. If it has
        // seen the new one, it says yes once more; if not, we announce.
        let link = self.link.identity();
        let stands =
            link.is_some_and(|link| through.is_none_or(|asked| asked.is_same_object(link)));
        if stands && let Some(answer) = asked.or_else(|| self.last_answer().cloned()) {
            if let DriverState::Answering { limit, .. } = &mut self.contact {
                *limit = answer.max_volumes;
            }
            self.standing = RegistrationState::Registered(Registration {
                kubelet,
                answer,
                terms: told.unwrap_or_else(|| self.terms.clone()),
            });
            self.announcer.settled(kubelet);
        }
        Vec::new()
    }

    pub(super) fn kubelet_rejected(
        &mut self,
        kubelet: Option<Process>,
        error: String,
        now: Moment,
    ) -> Vec<Effect> {
        self.held_until = None;
        self.asked = None;
        if let RegistrationState::Registered(registration) = &self.standing
            && registration.kubelet == kubelet
            && Refusal::of(&error) == Refusal::AlreadyRegistered
        {
            // It refuses a second path to the driver that it holds; the first one stands.
            return Vec::new();
        }
        if self.link.identity().is_none() {
            // It speaks of a link that is gone.
            return Vec::new();
        }
        self.standing = RegistrationState::Rejected { kubelet, error };
        self.announcer.refused(now);
        Vec::new()
    }

    pub(super) fn kubelet_ended(&mut self, process: Process, now: Moment) -> Vec<Effect> {
        let held = self.kubelet() == Some(process);
        if !held && !self.waits_for_a_restart_of_the_kubelet() {
            return Vec::new();
        }
        self.standing = RegistrationState::Unregistered(Unregistered::KubeletEnded);
        self.announcer.ended(process, now);
        // Nobody holds the link now, so going back to the plain name costs nothing; but the next
        // kubelet may have asked through it before we heard of the end of the last.
        if self.slot == LinkAlias::default() || self.asked.is_some() {
            Vec::new()
        } else {
            self.move_link(LinkAlias::default())
        }
    }

    pub(super) fn kubelet_started(&mut self, now: Moment) -> Vec<Effect> {
        match &self.standing {
            // Its end is seen by itself.
            RegistrationState::Registered(Registration {
                kubelet: Some(_), ..
            }) => return Vec::new(),
            RegistrationState::Registered(Registration { kubelet: None, .. })
            | RegistrationState::Rejected { .. }
            | RegistrationState::Unregistered(Unregistered::DirectoryReplaced) => {
                self.standing = RegistrationState::Unregistered(Unregistered::KubeletEnded);
            }
            RegistrationState::Unregistered(_) => {}
        }
        self.announcer.started(now);
        Vec::new()
    }

    pub(super) fn directory_replaced(&mut self, now: Moment) -> Vec<Effect> {
        // The link was looked at first: a registration that is left came through the new directory.
        if self.is_registered() {
            return Vec::new();
        }
        self.standing = RegistrationState::Unregistered(Unregistered::DirectoryReplaced);
        self.announcer.renewed(now);
        Vec::new()
    }

    pub(super) fn ticked(
        &mut self,
        kubelet_there: bool,
        calling: Calling,
        now: Moment,
    ) -> Vec<Effect> {
        self.not_before = self.not_before.filter(|at| now < *at);
        if self.absence_ends().is_some_and(|at| at <= now) {
            return self.withdrawn(Withdrawal::Absence);
        }
        let Some(name) = self.name.clone() else {
            return Vec::new();
        };
        // While somebody else serves our socket's place, a link to it is theirs to announce.
        let stands = self.link.identity().is_some() && self.socket.identity().is_some();
        if !stands || self.rule() != LinkPolicy::Wanted {
            return Vec::new();
        }
        if let Some(pending_change) = self.pending_change() {
            let is_wish = matches!(pending_change, PendingChange::Wish(_));
            let is_urgent = matches!(pending_change, PendingChange::Endpoint(_));
            if !is_wish && self.changes.holds(is_urgent, now) {
                return Vec::new();
            }
            if calling == Calling::This {
                self.held_until = Some(now + CALL_CHECK);
                return Vec::new();
            }
            self.held_until = None;
            self.asked_for = None;
            if !is_wish {
                self.changes.announced(now);
            }
            let news = pending_change.words();
            self.standing = RegistrationState::Unregistered(Unregistered::Announced(news));
            self.announcer.renewed(now);
            return vec![Effect::Announce(name, self.slot)];
        }
        if self.is_registered() {
            return Vec::new();
        }
        match self.announcer.decide(now, kubelet_there, calling) {
            Verdict::Wait => Vec::new(),
            Verdict::Announce => vec![Effect::Announce(name, self.slot)],
            Verdict::Rename => {
                self.not_before = Some(now + GAP);
                self.move_link(LinkAlias(self.slot.0 + 1))
            }
        }
    }

    pub(super) fn withdrawn(&mut self, withdrawal: Withdrawal) -> Vec<Effect> {
        self.withdrawal = Some(withdrawal);
        Vec::new()
    }

    pub(super) fn published_by_hand(&mut self, now: Moment) -> Vec<Effect> {
        if self.withdrawal.take().is_some() {
            self.announcer.renewed(now);
            self.socket.look_again();
        }
        Vec::new()
    }

    /// A wish that comes while the driver is still asked for the first time waits for its answer.
    pub(super) fn announcement_wanted(&mut self, words: &'static str, now: Moment) -> Vec<Effect> {
        if !self.is_silent() && self.link.identity().is_some() {
            self.asked_for = Some(words);
            self.announcer.renewed(now);
        }
        Vec::new()
    }

    pub(super) fn release_name(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = self.unlink();
        if !effects.is_empty() {
            self.not_before = Some(now + GAP);
        }
        effects.extend(self.unserve());
        // Whatever was in the way of the old name is not in the way of the new one.
        self.link.cleared();
        self.socket.cleared();
        self.slot = LinkAlias::default();
        self.standing = RegistrationState::Unregistered(Unregistered::NotYet);
        self.announcer.renewed(now);
        effects
    }

    pub(super) fn move_link(&mut self, slot: LinkAlias) -> Vec<Effect> {
        let effects = self.unlink();
        self.slot = slot;
        effects
    }
}
