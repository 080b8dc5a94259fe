//! The life of one driver, as a pure state machine: (state, event) → (state, effects).
//!
//! Three sides are kept apart, each in an enum of its own: what the driver says ([`DriverState`]),
//! what stands on disk ([`FileState`], once for the socket and once for the link), and what the
//! kubelet said ([`RegistrationState`]). An event changes what is known about one side; [`Driver::settle`]
//! then looks at all three and says what to do. The [`Phase`] is read off the three.
//!
//! Nothing here does I/O or reads a clock. `docs/state-machine.md` draws it.

mod announcer;
pub(crate) mod answer;
pub(crate) mod event;
pub(crate) mod file_state;
mod handover;
mod pace;
pub(crate) mod phase;
mod reason;
mod record;
mod refusal;
mod registration_state;
#[cfg(test)]
mod tests;
mod transitions;

use std::time::Duration;

use self::announcer::Announcer;
pub(crate) use self::event::{Calling, Effect, Event, Seen};
use self::file_state::FileState;
use self::pace::Pace;
use self::phase::Phase;
pub(crate) use self::record::Record;
#[cfg(test)]
pub(crate) use self::record::Registered;
pub(crate) use self::refusal::Refusal;
pub(crate) use self::registration_state::AdvertisedInfo;
use self::registration_state::{Registration, RegistrationState, Unregistered};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::disk::obstacle::Obstacle;
use crate::driver::answer::{Answer, AnswerChange};
use crate::os::clock::Moment;
use crate::os::process::Process;

/// How soon it is looked again whether a call that is in the way has ended.
const CALL_CHECK: Duration = Duration::from_secs(3);

/// One driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Driver {
    /// After how long an absence the link is taken away.
    withdraw_after: Option<Duration>,
    terms: AdvertisedInfo,
    /// What the socket and the link are named after: the name that the driver last gave.
    name: Option<DriverName>,
    contact: DriverState,
    socket: FileState,
    link: FileState,
    slot: LinkAlias,
    /// The link is not published before this.
    not_before: Option<Moment>,
    standing: RegistrationState,
    /// The driver as it was when a kubelet last asked. The driver may be another by the time the
    /// kubelet says how it went, and the cluster then knows the one that was asked about.
    asked: Option<Answer>,
    withdrawal: Option<Withdrawal>,
    announcer: Announcer,
    /// Announcements of what changed while the driver was registered.
    changes: Pace,
    /// An announcement was asked for, by somebody or something that says these words.
    asked_for: Option<&'static str>,
    /// What the driver takes its time for, while it is being asked.
    slow: Option<String>,
    /// An announcement that is pending_change waits until then, because a call was in progress.
    held_until: Option<Moment>,
}

/// The driver's side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum DriverState {
    /// Not asked yet since we started: what stands is left alone until it was.
    Untried,
    Silent {
        since: Moment,
        why: String,
        /// It is not even asked.
        refused: bool,
    },
    Answering {
        answer: Answer,
        /// The volume limit that the cluster is to know: the one that the driver came with. A limit
        /// that changes while the driver runs is shown, not announced.
        limit: i64,
    },
}

/// Unregistered the link was taken away on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Withdrawal {
    ByHand,
    /// The driver was gone for as long as withdraw_after says.
    Absence,
}

/// An announcement that a registered driver needs, with the reason in words.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PendingChange {
    /// It was asked for.
    Wish(&'static str),
    /// The kubelet knows a socket that is not the driver's any more.
    Endpoint(String),
    Change(String),
}

/// Whether there should be a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkPolicy {
    Wanted,
    Unwanted,
    LeaveAlone,
}

impl PendingChange {
    fn words(self) -> String {
        match self {
            PendingChange::Wish(words) => words.to_owned(),
            PendingChange::Endpoint(news) | PendingChange::Change(news) => news,
        }
    }
}

impl Driver {
    pub(crate) fn new(withdraw_after: Option<Duration>, terms: AdvertisedInfo) -> Driver {
        Driver {
            withdraw_after,
            terms,
            name: None,
            contact: DriverState::Untried,
            socket: FileState::new("the registration socket"),
            link: FileState::new("the link"),
            slot: LinkAlias::default(),
            not_before: None,
            standing: RegistrationState::Unregistered(Unregistered::NotYet),
            asked: None,
            withdrawal: None,
            announcer: Announcer::new(),
            changes: Pace::default(),
            asked_for: None,
            slow: None,
            held_until: None,
        }
    }

    /// Goes on with changed settings. What the driver said holds until it is asked again, unless
    /// it is looked for `elsewhere` now.
    pub(crate) fn reconfigure(
        &mut self,
        withdraw_after: Option<Duration>,
        terms: AdvertisedInfo,
        elsewhere: bool,
        now: Moment,
    ) {
        self.withdraw_after = withdraw_after;
        let news = self.terms != terms;
        self.terms = terms;
        if news {
            // The operator's own change has to wait for none of the driver's.
            self.changes = Pace::default();
        }
        if news && !self.is_registered() {
            // A kubelet that has refused what it was told before may like this better.
            if matches!(self.standing, RegistrationState::Rejected { .. }) {
                self.standing = RegistrationState::Unregistered(Unregistered::NotYet);
            }
            self.announcer.renewed(now);
        }
        if elsewhere {
            self.contact = DriverState::Untried;
            self.slow = None;
        }
        if self.withdrawal == Some(Withdrawal::Absence) {
            self.withdrawal = None;
        }
    }

    /// Takes in what happened and says what to do about it.
    pub(crate) fn apply(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        let before = self.record();
        let mut effects = match event {
            Event::DriverAnswered(answer) => self.driver_answered(answer, now),
            Event::DriverChanged(answer) => self.driver_changed(answer, now),
            Event::DriverSlow(why) => self.driver_slow(why),
            Event::DriverSilent(why) => self.driver_silent(why, false, now),
            Event::DriverRefused(why) => self.driver_silent(why, true, now),
            Event::DriverTaken(why) => self.driver_taken(why, now),
            Event::SocketServed(identity) => self.socket_served(identity),
            Event::SocketBlocked(obstacle) => self.socket_blocked(obstacle, now),
            Event::LinkPublished(identity) => self.link_published(identity, now),
            Event::LinkBlocked(obstacle) => self.link_blocked(obstacle, now),
            Event::SocketSeen(seen) => self.socket_seen(&seen, now),
            Event::LinkSeen(seen) => self.link_seen(seen, now),
            Event::KubeletAsked(caller) => self.kubelet_asked(caller),
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
            } => self.ticked(kubelet_there, calling, now),
            Event::Withdraw => self.withdrawn(Withdrawal::ByHand),
            Event::Publish => self.published_by_hand(now),
            Event::Reannounce(words) => self.announcement_wanted(words, now),
        };
        effects.extend(self.settle(now));
        if self.record() != before {
            effects.push(Effect::Save);
        }
        effects
    }

    /// When the driver wants an [`Event::Ticked`], if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let wanted = self.rule() == LinkPolicy::Wanted;
        let stands = self.link.identity().is_some() && self.socket.identity().is_some();
        let announcement = if !wanted || !stands {
            None
        } else if let Some(pending_change) = self.pending_change() {
            let held_until = self.held_until.unwrap_or_default();
            Some(held_until.max(self.not_announced_before(&pending_change)))
        } else if self.is_registered() {
            None
        } else {
            self.announcer.due()
        };
        let publication = if wanted && self.socket.identity().is_some() {
            [self.link.retry(), self.not_before]
                .into_iter()
                .flatten()
                .max()
        } else {
            None
        };
        let service = self.name.as_ref().and_then(|_| self.socket.retry());
        [announcement, publication, service, self.absence_ends()]
            .into_iter()
            .flatten()
            .min()
    }

    pub(crate) fn phase(&self) -> Phase {
        if self.withdrawal.is_some() {
            return Phase::Withdrawn;
        }
        if self.rule() == LinkPolicy::Wanted && self.obstacle().is_some_and(Obstacle::is_conflict) {
            return Phase::Conflict;
        }
        match (&self.standing, &self.contact) {
            (RegistrationState::Registered(_), _) => Phase::Registered,
            (_, DriverState::Untried | DriverState::Silent { .. }) => Phase::WaitingForDriver,
            (RegistrationState::Rejected { .. }, DriverState::Answering { .. }) => Phase::Rejected,
            (RegistrationState::Unregistered(_), DriverState::Answering { .. }) => {
                Phase::WaitingForKubelet
            }
        }
    }

    /// The driver's answer, while it answers: what GetInfo may tell.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match &self.contact {
            DriverState::Answering { answer, .. } => Some(answer),
            DriverState::Untried | DriverState::Silent { .. } => None,
        }
    }

    /// The driver was asked, and does not answer.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.contact, DriverState::Silent { .. })
    }

    /// The driver as it last was, for those who want to see it.
    pub(crate) fn last_answer(&self) -> Option<&Answer> {
        self.answer().or(self.registered_answer())
    }

    /// The driver as the kubelet has registered it.
    pub(crate) fn registered_answer(&self) -> Option<&Answer> {
        match &self.standing {
            RegistrationState::Registered(registration) => Some(&registration.answer),
            RegistrationState::Unregistered(_) | RegistrationState::Rejected { .. } => None,
        }
    }

    /// Another driver of ours serves under the name, and keeps it.
    pub(crate) fn name_is_taken(&self) -> bool {
        matches!(self.socket.obstacle(), Some(Obstacle::NameTaken(_)))
    }

    /// Unregistered the kubelet said no.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match &self.standing {
            RegistrationState::Rejected { error, .. } => Some(Refusal::of(error)),
            RegistrationState::Unregistered(_) | RegistrationState::Registered(_) => None,
        }
    }

    /// The kubelet watches a directory that was deleted.
    pub(crate) fn waits_for_a_restart_of_the_kubelet(&self) -> bool {
        self.standing == RegistrationState::Unregistered(Unregistered::DirectoryReplaced)
    }

    pub(crate) fn terms(&self) -> &AdvertisedInfo {
        &self.terms
    }

    pub(crate) fn name(&self) -> Option<&DriverName> {
        self.name.as_ref()
    }

    /// The name under which the socket stands, when it does.
    pub(crate) fn serves(&self) -> Option<(&DriverName, &Identity)> {
        self.name.as_ref().zip(self.socket.identity())
    }

    /// The link, when it stands.
    pub(crate) fn links(&self) -> Option<(&DriverName, LinkAlias, &Identity)> {
        let (name, identity) = self.name.as_ref().zip(self.link.identity())?;
        Some((name, self.slot, identity))
    }

    pub(crate) fn slot(&self) -> LinkAlias {
        self.slot
    }

    /// The link and the socket were removed because we stop or the driver is no longer ours.
    pub(crate) fn was_withdrawn(&mut self) {
        self.link.cleared();
        self.socket.cleared();
        self.standing = RegistrationState::Unregistered(Unregistered::NotYet);
    }

    /// A kubelet holds the driver, whatever else there is to say of it.
    pub(crate) fn is_registered(&self) -> bool {
        matches!(self.standing, RegistrationState::Registered(_))
    }

    /// The kubelet that holds the registration or the refusal.
    pub(crate) fn kubelet(&self) -> Option<Process> {
        match &self.standing {
            RegistrationState::Registered(Registration { kubelet, .. })
            | RegistrationState::Rejected { kubelet, .. } => *kubelet,
            RegistrationState::Unregistered(_) => None,
        }
    }

    /// Does what the three sides call for.
    fn settle(&mut self, now: Moment) -> Vec<Effect> {
        let Some(name) = self.name.clone() else {
            return Vec::new();
        };
        if self.socket.is_due(now) {
            return vec![Effect::Serve(name)];
        }
        match self.rule() {
            LinkPolicy::Wanted => {
                let early = self.not_before.is_some_and(|at| now < at);
                if self.socket.identity().is_some() && self.link.is_due(now) && !early {
                    vec![Effect::Publish(name, self.slot)]
                } else {
                    Vec::new()
                }
            }
            LinkPolicy::Unwanted => {
                if !matches!(self.standing, RegistrationState::Unregistered(_)) {
                    self.standing = RegistrationState::Unregistered(Unregistered::NotYet);
                }
                self.unlink()
            }
            LinkPolicy::LeaveAlone => Vec::new(),
        }
    }

    /// The link exists exactly while the driver answers, or is registered with a kubelet that
    /// still runs; not while it is withdrawn.
    fn rule(&self) -> LinkPolicy {
        if self.withdrawal.is_some() {
            return LinkPolicy::Unwanted;
        }
        match (&self.standing, &self.contact) {
            (RegistrationState::Registered(_), _) | (_, DriverState::Answering { .. }) => {
                LinkPolicy::Wanted
            }
            (_, DriverState::Silent { .. }) => LinkPolicy::Unwanted,
            (_, DriverState::Untried) => LinkPolicy::LeaveAlone,
        }
    }

    /// What the kubelet must hear although the driver is registered. A driver that does not answer
    /// would only be taken off the node.
    fn pending_change(&self) -> Option<PendingChange> {
        let DriverState::Answering { answer, limit } = &self.contact else {
            return None;
        };
        if let Some(words) = self.asked_for {
            return Some(PendingChange::Wish(words));
        }
        let RegistrationState::Registered(registration) = &self.standing else {
            return None;
        };
        let terms = registration.terms.change_to(&self.terms);
        // Nobody serves the socket that the kubelet knows, so that nothing is lost by the news.
        if registration.terms.endpoint != self.terms.endpoint {
            return terms.map(PendingChange::Endpoint);
        }
        match registration.answer.change_to(answer) {
            AnswerChange::Announce(news) => Some(PendingChange::Change(news)),
            AnswerChange::Limit(news) if registration.answer.max_volumes != *limit => {
                Some(PendingChange::Change(news))
            }
            AnswerChange::Collision(_) => None,
            AnswerChange::Limit(_) | AnswerChange::None => terms.map(PendingChange::Change),
        }
    }

    /// When what is pending_change may go out.
    fn not_announced_before(&self, pending_change: &PendingChange) -> Moment {
        match pending_change {
            PendingChange::Wish(_) => Moment::default(),
            PendingChange::Endpoint(_) => self.changes.next(true),
            PendingChange::Change(_) => self.changes.next(false),
        }
    }

    /// What keeps the socket or the link from its place.
    pub(crate) fn obstacle(&self) -> Option<&Obstacle> {
        self.socket.obstacle().or(self.link.obstacle())
    }

    fn absence_ends(&self) -> Option<Moment> {
        match (&self.contact, self.withdraw_after) {
            (DriverState::Silent { since, .. }, Some(after))
                if self.withdrawal.is_none() && self.link.identity().is_some() =>
            {
                Some(*since + after)
            }
            _ => None,
        }
    }

    fn unlink(&mut self) -> Vec<Effect> {
        // Whoever asked for another announcement meant the link that goes.
        self.asked_for = None;
        self.held_until = None;
        let Some((name, slot, identity)) = self.links() else {
            return Vec::new();
        };
        let effect = Effect::Unlink(name.clone(), slot, identity.clone());
        self.link.cleared();
        vec![effect]
    }

    /// The socket that our link would lead to is another's.
    fn others_serve(&self) -> bool {
        self.socket.obstacle().is_some_and(Obstacle::is_a_server)
    }

    /// Also where no socket stands: a dead one of an earlier run may be in its place.
    fn unserve(&mut self) -> Vec<Effect> {
        let identity = self.socket.identity().cloned();
        self.socket.cleared();
        match self.name.clone() {
            Some(name) => vec![Effect::Unserve(name, identity)],
            None => Vec::new(),
        }
    }
}
