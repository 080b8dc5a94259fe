//! The state machine of one driver: what it knows, and what follows from it.

use std::time::Duration;

use super::announcer::Announcer;
use super::answer::{Answer, AnswerChange};
use super::file_state::FileState;
use super::leaving::Leaving;
use super::pace::ChangePace;
use super::registration_state::{RegistrationState, Unregistered};
use super::{Actions, AdvertisedInfo, Event, Put, Removal};
use crate::disk::name::DriverName;
use crate::os::clock::Moment;

/// How soon the driver checks again whether a call that holds an announcement up has ended.
pub(super) const CALL_CHECK: Duration = Duration::from_secs(3);

/// One driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Driver {
    /// How long the driver may be away before its link is removed.
    pub(super) withdraw_after: Option<Duration>,
    pub(super) advertised: AdvertisedInfo,
    /// The name that the driver last gave: the socket and the link are named after it.
    pub(super) name: Option<DriverName>,
    pub(super) state: DriverState,
    pub(super) socket: FileState,
    pub(super) link: FileState,
    /// The link is not published before this.
    pub(super) not_before: Option<Moment>,
    pub(super) registration: RegistrationState,
    /// The answer that the kubelet got when it last asked. The driver may give another one before the
    /// kubelet reports the outcome, and the cluster then knows this one.
    pub(super) asked: Option<Answer>,
    pub(super) withdrawal: Option<Withdrawal>,
    pub(super) leaving: Leaving,
    pub(super) announcer: Announcer,
    /// The pace of announcements of changes to a registered driver.
    pub(super) changes: ChangePace,
    /// An announcement was requested, for this reason.
    pub(super) requested: Option<&'static str>,
    /// The pending announcement waits until then, because a call was in progress.
    pub(super) held_until: Option<Moment>,
}

/// Whether the driver answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum DriverState {
    /// The driver has not answered or failed since we started: its files are left alone until then.
    Asking {
        /// Why the driver gets more time to answer.
        slow: Option<String>,
    },
    Silent {
        since: Moment,
        why: String,
        /// The driver is not asked at all.
        refused: bool,
    },
    Answering {
        answer: Answer,
        /// The volume limit that the cluster has to know: the one that the driver started with. A
        /// limit that changes while the driver runs is shown, not announced.
        limit: i64,
    },
}

/// Why the link was removed on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Withdrawal {
    ByHand,
    /// The driver was away for longer than withdraw_after.
    Absence,
}

/// An announcement that a registered driver needs, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PendingChange {
    Requested(&'static str),
    /// The kubelet knows a socket that the driver no longer has.
    Endpoint(String),
    Other(String),
}

/// Whether the link should exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkPolicy {
    Wanted,
    Unwanted,
    LeaveAlone,
}

impl PendingChange {
    pub(super) fn words(self) -> String {
        match self {
            PendingChange::Requested(reason) => reason.to_owned(),
            PendingChange::Endpoint(news) | PendingChange::Other(news) => news,
        }
    }
}

impl Driver {
    pub(crate) fn new(withdraw_after: Option<Duration>, advertised: AdvertisedInfo) -> Driver {
        Driver {
            withdraw_after,
            advertised,
            name: None,
            state: DriverState::Asking { slow: None },
            socket: FileState::new("the registration socket"),
            link: FileState::new("the link"),
            not_before: None,
            registration: RegistrationState::Unregistered(Unregistered::NotYet),
            asked: None,
            withdrawal: None,
            leaving: Leaving::No,
            announcer: Announcer::default(),
            changes: ChangePace::default(),
            requested: None,
            held_until: None,
        }
    }

    /// Takes changed settings. The driver's answer holds until the driver is asked again, unless its
    /// socket is `elsewhere` now.
    pub(crate) fn reconfigure(
        &mut self,
        withdraw_after: Option<Duration>,
        advertised: AdvertisedInfo,
        elsewhere: bool,
        now: Moment,
    ) {
        self.withdraw_after = withdraw_after;
        let news = self.advertised != advertised;
        self.advertised = advertised;
        if news {
            // A change by the operator does not wait because the driver has changed of late.
            self.changes = ChangePace::default();
        }
        if news && !self.is_registered() {
            // A kubelet that rejected the old settings may accept the new ones.
            if matches!(self.registration, RegistrationState::Rejected { .. }) {
                self.registration = RegistrationState::Unregistered(Unregistered::NotYet);
            }
            self.announcer.renewed(now);
        }
        if elsewhere {
            self.state = DriverState::Asking { slow: None };
        }
        if self.withdrawal == Some(Withdrawal::Absence) {
            self.withdrawal = None;
        }
    }

    /// Takes in what happened and says what to do about it.
    pub(crate) fn apply(&mut self, event: Event, now: Moment) -> Actions {
        let before = self.record();
        let mut actions = Actions::default();
        match event {
            Event::DriverAnswered(answer) => self.driver_answered(answer, now),
            Event::DriverChanged(answer) => self.driver_changed(answer, now),
            Event::DriverSlow(why) => self.state = DriverState::Asking { slow: Some(why) },
            Event::DriverSilent(why) => self.driver_silent(why, false, now),
            Event::DriverRefused(why) => self.driver_silent(why, true, now),
            Event::DriverTaken(why) => self.driver_taken(why, now),
            Event::SocketServed(identity) => self.socket.exists(identity),
            Event::SocketBlocked(obstacle) => self.socket.blocked(obstacle, now),
            Event::LinkPublished(identity) => self.link_published(identity, now),
            Event::LinkBlocked(obstacle) => self.link.blocked(obstacle, now),
            Event::SocketSeen(seen) => self.socket_seen(seen, now),
            Event::LinkSeen(seen) => self.link_seen(seen, now),
            Event::KubeletAsked => self.kubelet_asked(),
            Event::KubeletRegistered {
                kubelet,
                through,
                told,
            } => self.kubelet_registered(kubelet, through.as_ref(), told),
            Event::KubeletRejected(kubelet, error) => self.kubelet_rejected(kubelet, error, now),
            Event::KubeletEnded(process) => self.kubelet_ended(process, now),
            Event::KubeletStarted => self.kubelet_started(now),
            Event::DirectoryReplaced => self.directory_replaced(now),
            Event::Ticked {
                kubelet_there,
                calling,
            } => self.ticked(kubelet_there, calling, now, &mut actions),
            Event::VolumesSeen(volumes) => self.volumes_seen(volumes, now, &mut actions),
            Event::Withdraw(volumes) => self.withdraw(&volumes),
            Event::WithdrawInUse => self.withdrawal = Some(Withdrawal::ByHand),
            Event::Publish => self.published_by_hand(now),
            Event::Reannounce(reason) => self.announcement_requested(reason, now),
        }
        self.consider_leaving(now, &mut actions);
        if actions.put.is_none() {
            self.settle(now, &mut actions);
        }
        actions.save = self.record() != before;
        actions
    }

    /// When the driver wants an [`Event::Ticked`], if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let wanted = self.link_policy() == LinkPolicy::Wanted;
        let announcement = if !wanted || !self.is_published() {
            None
        } else if let Some(change) = self.pending_change() {
            let held_until = self.held_until.unwrap_or_default();
            Some(held_until.max(self.not_announced_before(&change)))
        } else if self.is_registered() {
            None
        } else {
            self.announcer.due()
        };
        let is_served = self.socket.identity().is_some();
        let publication = self.link.retry().max(self.not_before);
        let publication = publication.filter(|_| wanted && is_served);
        let service = self.name.as_ref().and_then(|_| self.socket.retry());
        [announcement, publication, service, self.leaving_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The link and the socket were removed because we stop or no longer serve the driver.
    pub(crate) fn was_withdrawn(&mut self) {
        self.link.cleared();
        self.socket.cleared();
        self.registration = RegistrationState::Unregistered(Unregistered::NotYet);
    }

    /// Asks for what the three sides call for.
    fn settle(&mut self, now: Moment, actions: &mut Actions) {
        let Some(name) = self.name.clone() else {
            return;
        };
        if self.socket.is_due(now) {
            actions.put = Some(Put::Serve(name));
            return;
        }
        match self.link_policy() {
            LinkPolicy::Wanted => {
                let early = self.not_before.is_some_and(|at| now < at);
                if self.socket.identity().is_some() && self.link.is_due(now) && !early {
                    actions.put = Some(Put::Publish(name));
                }
            }
            LinkPolicy::Unwanted => {
                if !matches!(self.registration, RegistrationState::Unregistered(_)) {
                    self.registration = RegistrationState::Unregistered(Unregistered::NotYet);
                }
                self.unlink(actions);
            }
            LinkPolicy::LeaveAlone => {}
        }
    }

    /// The link exists exactly while the driver answers, or is registered with a kubelet that
    /// still runs; not while it is withdrawn.
    pub(super) fn link_policy(&self) -> LinkPolicy {
        if self.withdrawal.is_some() {
            return LinkPolicy::Unwanted;
        }
        match (&self.registration, &self.state) {
            (RegistrationState::Registered(_), _) | (_, DriverState::Answering { .. }) => {
                LinkPolicy::Wanted
            }
            (_, DriverState::Silent { .. }) => LinkPolicy::Unwanted,
            (_, DriverState::Asking { .. }) => LinkPolicy::LeaveAlone,
        }
    }

    /// What the kubelet must learn although the driver is registered. Announcing a driver that does not
    /// answer would only take it off the node.
    pub(super) fn pending_change(&self) -> Option<PendingChange> {
        let DriverState::Answering { answer, limit } = &self.state else {
            return None;
        };
        if self.new_name().is_some() {
            return None;
        }
        if let Some(reason) = self.requested {
            return Some(PendingChange::Requested(reason));
        }
        let registration = self.registered()?;
        let advertised = registration.advertised.change_to(&self.advertised);
        // No process serves the socket that the kubelet knows, so the announcement costs nothing.
        if registration.advertised.endpoint != self.advertised.endpoint {
            return advertised.map(PendingChange::Endpoint);
        }
        match registration.answer.change_to(answer) {
            AnswerChange::Announce(news) => Some(PendingChange::Other(news)),
            AnswerChange::Limit(news) if registration.answer.max_volumes != *limit => {
                Some(PendingChange::Other(news))
            }
            AnswerChange::Collision(_) => None,
            AnswerChange::Limit(_) | AnswerChange::None => advertised.map(PendingChange::Other),
        }
    }

    /// When the change may be announced.
    fn not_announced_before(&self, change: &PendingChange) -> Moment {
        match change {
            PendingChange::Requested(_) => Moment::default(),
            PendingChange::Endpoint(_) => self.changes.next(true),
            PendingChange::Other(_) => self.changes.next(false),
        }
    }

    pub(super) fn absence_ends(&self) -> Option<Moment> {
        match (&self.state, self.withdraw_after) {
            (DriverState::Silent { since, .. }, Some(after))
                if self.withdrawal.is_none() && self.link.identity().is_some() =>
            {
                Some(*since + after)
            }
            _ => None,
        }
    }

    pub(super) fn unlink(&mut self, actions: &mut Actions) {
        // The requested announcement was one of the link that goes.
        self.requested = None;
        self.held_until = None;
        if let Some((name, identity)) = self.links() {
            let removal = Removal::Link(name.clone(), identity.clone());
            actions.remove.push(removal);
            self.link.cleared();
        }
    }
}
