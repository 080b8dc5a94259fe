//! The life of one driver, as a pure state machine: (state, event) → (state, effects).
//!
//! Three sides are kept apart, each in an enum of its own: what the driver says ([`Contact`]),
//! what stands on disk ([`Footing`], once for the socket and once for the link), and what the
//! kubelet said ([`Standing`]). An event changes what is known about one side; [`Driver::settle`]
//! then looks at all three and says what to do. The [`Phase`] is read off the three.
//!
//! Nothing here does I/O or reads a clock. `docs/state-machine.md` draws it.

mod announcer;
pub(crate) mod footing;
pub(crate) mod phase;
mod reason;
mod record;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::announcer::{Announcer, Verdict};
use self::footing::Footing;
use self::phase::Phase;
pub(crate) use self::record::Record;
use crate::csi::answer::{Answer, Change};
use crate::identity::Identity;
use crate::kubelet::Process;
use crate::link::layout::Slot;
use crate::link::obstacle::Obstacle;
use crate::moment::Moment;
use crate::name::DriverName;

/// The kubelet de-registers by the driver's name within a second of a link's end. A link with
/// another name, or a driver with another name, waits until that is over.
const GAP: Duration = Duration::from_secs(2);

/// How soon it is looked again whether a call that is in the way has ended.
const CALL_CHECK: Duration = Duration::from_secs(3);

/// One driver.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Driver {
    /// After how long an absence the link is taken away.
    withdraw_after: Option<Duration>,
    terms: Terms,
    /// What the socket and the link are named after: the name that the driver last gave.
    name: Option<DriverName>,
    contact: Contact,
    socket: Footing,
    link: Footing,
    slot: Slot,
    /// The link is not published before this.
    not_before: Option<Moment>,
    standing: Standing,
    /// The driver as it was when a kubelet last asked. The driver may be another by the time the
    /// kubelet says how it went, and the cluster then knows the one that was asked about.
    asked: Option<Answer>,
    withdrawal: Option<Withdrawal>,
    announcer: Announcer,
    /// Somebody asked for an announcement by hand.
    asked_by_hand: bool,
    /// An announcement that is owed waits until then, because a call was in progress.
    held_until: Option<Moment>,
}

/// What the configuration adds to the driver's own answer when the kubelet asks.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// csi.sock as the kubelet sees it.
    pub(crate) endpoint: PathBuf,
    pub(crate) versions: Vec<String>,
}

/// The driver's side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Contact {
    /// Not asked yet since we started: what stands is left alone until it was.
    Untried,
    Silent {
        since: Moment,
        why: String,
    },
    Answering(Answer),
}

/// The kubelet's side.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Standing {
    Unregistered(Why),
    Rejected {
        kubelet: Option<Process>,
        error: String,
    },
    Registered(Registration),
}

/// A kubelet's yes. It stands while that process runs and the link is the same object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Registration {
    /// None when the kubelet lives in another pid namespace.
    kubelet: Option<Process>,
    /// The driver as the cluster knows it.
    answer: Answer,
    terms: Terms,
}

/// Why the driver is not registered (any more).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Why {
    NotYet,
    KubeletEnded,
    LinkChanged,
    /// The link was made anew because of this.
    Announced(String),
    /// The kubelet watches a directory that was deleted; no release ever looks at its successor.
    DirectoryReplaced,
}

/// Why the link was taken away on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Withdrawal {
    ByHand,
    /// The driver was gone for as long as withdraw_after says.
    Absence,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Event {
    DriverAnswered(Answer),
    DriverSilent(String),
    SocketServed(Identity),
    SocketBlocked(Obstacle),
    LinkPublished(Identity),
    LinkBlocked(Obstacle),
    /// What was seen at the socket's place.
    SocketSeen(Seen),
    /// What was seen at the link's place.
    LinkSeen(Seen),
    KubeletAsked(Option<Process>),
    /// Through the link as it was when the kubelet asked, if it asked on the same connection.
    KubeletRegistered {
        kubelet: Option<Process>,
        through: Option<Identity>,
    },
    KubeletRejected(Option<Process>, String),
    KubeletEnded(Process),
    KubeletStarted,
    /// plugins_registry was deleted and made anew under a running kubelet.
    DirectoryReplaced,
    /// A deadline has come, or it is time to look at everything.
    Ticked {
        kubelet_there: bool,
        calling: bool,
    },
    /// By hand.
    Withdraw,
    Publish,
    Reannounce,
    /// Another driver of ours, which answers, has the same name.
    NameWanted,
}

/// Who is at a place of ours.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seen {
    Ours(Identity),
    /// Nobody, somebody else, or something dead: whatever it is, it is looked at again before
    /// anything is put there.
    NotOurs,
}

/// What is to be done. Each is done at once, and its outcome comes back as an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Effect {
    /// Listen on the registration socket: SocketServed or SocketBlocked.
    Serve(DriverName),
    /// Stop listening, and remove the socket if it is still ours.
    Unserve(DriverName, Identity),
    /// Make sure that the link is there: LinkPublished or LinkBlocked.
    Publish(DriverName, Slot),
    /// Put a new link over the old one: LinkPublished or LinkBlocked.
    Announce(DriverName, Slot),
    /// Remove the link if it is still this one.
    Unlink(DriverName, Slot, Identity),
    /// Write down what must survive us.
    Save,
}

/// Whether there should be a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Wanted,
    Unwanted,
    AsItIs,
}

impl Terms {
    fn change_to(&self, now: &Terms) -> Option<String> {
        if self.endpoint != now.endpoint {
            return Some(format!(
                "endpoint changed from {} to {}",
                self.endpoint.display(),
                now.endpoint.display()
            ));
        }
        (self.versions != now.versions).then(|| "supported versions changed".to_owned())
    }
}

impl Driver {
    pub(crate) fn new(withdraw_after: Option<Duration>, terms: Terms) -> Driver {
        Driver {
            withdraw_after,
            terms,
            name: None,
            contact: Contact::Untried,
            socket: Footing::new("the registration socket"),
            link: Footing::new("the link"),
            slot: Slot::default(),
            not_before: None,
            standing: Standing::Unregistered(Why::NotYet),
            asked: None,
            withdrawal: None,
            announcer: Announcer::new(),
            asked_by_hand: false,
            held_until: None,
        }
    }

    /// Takes in what happened and says what to do about it.
    pub(crate) fn apply(&mut self, event: Event, now: Moment) -> Vec<Effect> {
        let before = self.record();
        let mut effects = match event {
            Event::DriverAnswered(answer) => self.driver_answered(answer, now),
            Event::DriverSilent(why) => self.driver_silent(why, now),
            Event::SocketServed(identity) => self.socket_served(identity),
            Event::SocketBlocked(obstacle) => self.socket_blocked(obstacle, now),
            Event::LinkPublished(identity) => self.link_published(identity, now),
            Event::LinkBlocked(obstacle) => self.link_blocked(obstacle, now),
            Event::SocketSeen(seen) => self.socket_seen(&seen, now),
            Event::LinkSeen(seen) => self.link_seen(seen, now),
            Event::KubeletAsked(caller) => self.kubelet_asked(caller),
            Event::KubeletRegistered { kubelet, through } => {
                self.kubelet_registered(kubelet, through.as_ref())
            }
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
            Event::Reannounce => self.reannounced_by_hand(now),
            Event::NameWanted => self.name_wanted(),
        };
        effects.extend(self.settle(now));
        if self.record() != before {
            effects.push(Effect::Save);
        }
        effects
    }

    /// When the driver wants an [`Event::Ticked`], if nothing else happens.
    pub(crate) fn deadline(&self) -> Option<Moment> {
        let wanted = self.rule() == Rule::Wanted;
        let announcement = if !wanted || self.link.identity().is_none() {
            None
        } else if self.owed().is_some() {
            Some(self.held_until.unwrap_or_default())
        } else if matches!(self.standing, Standing::Registered(_)) {
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
        if self.rule() == Rule::Wanted && self.obstacle().is_some_and(Obstacle::is_conflict) {
            return Phase::Conflict;
        }
        match (&self.standing, &self.contact) {
            (Standing::Registered(_), _) => Phase::Registered,
            (_, Contact::Untried | Contact::Silent { .. }) => Phase::WaitingForDriver,
            (Standing::Rejected { .. }, Contact::Answering(_)) => Phase::Rejected,
            (Standing::Unregistered(_), Contact::Answering(_)) => Phase::WaitingForKubelet,
        }
    }

    /// The driver's answer, while it answers: what GetInfo may tell.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match &self.contact {
            Contact::Answering(answer) => Some(answer),
            Contact::Untried | Contact::Silent { .. } => None,
        }
    }

    /// The driver as it last was, for those who want to see it.
    pub(crate) fn last_answer(&self) -> Option<&Answer> {
        self.answer().or(match &self.standing {
            Standing::Registered(registration) => Some(&registration.answer),
            Standing::Unregistered(_) | Standing::Rejected { .. } => None,
        })
    }

    pub(crate) fn terms(&self) -> &Terms {
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
    pub(crate) fn links(&self) -> Option<(&DriverName, Slot, &Identity)> {
        let (name, identity) = self.name.as_ref().zip(self.link.identity())?;
        Some((name, self.slot, identity))
    }

    pub(crate) fn slot(&self) -> Slot {
        self.slot
    }

    /// The link and the socket were removed because we stop or the driver is no longer ours.
    pub(crate) fn was_withdrawn(&mut self) {
        self.link.cleared();
        self.socket.cleared();
        self.standing = Standing::Unregistered(Why::NotYet);
    }

    /// The kubelet that holds the registration or the refusal.
    pub(crate) fn kubelet(&self) -> Option<Process> {
        match &self.standing {
            Standing::Registered(Registration { kubelet, .. })
            | Standing::Rejected { kubelet, .. } => *kubelet,
            Standing::Unregistered(_) => None,
        }
    }

    /// Makes equal situations equal, for the search over all states.
    #[cfg(test)]
    fn normalise(
        &mut self,
        identity: impl Fn(&Identity) -> Identity,
        time: impl Fn(Moment) -> Moment,
        runs: impl Fn(u32) -> bool,
    ) {
        self.socket.normalise(&identity, &time);
        self.link.normalise(&identity, &time);
        self.announcer.normalise(&time, &runs);
        self.not_before = self.not_before.map(&time);
        self.held_until = self.held_until.map(&time);
        if let Contact::Silent { since, .. } = &mut self.contact {
            *since = time(Moment::default());
        }
        if let Standing::Registered(Registration {
            kubelet: Some(process),
            ..
        })
        | Standing::Rejected {
            kubelet: Some(process),
            ..
        } = &mut self.standing
        {
            process.pid = u32::from(runs(process.pid));
        }
    }

    /// The moments that the search has to keep in order.
    #[cfg(test)]
    fn times(&self) -> impl Iterator<Item = Moment> {
        let retries = [self.socket.retry(), self.link.retry()];
        let waits = [self.announcer.due(), self.not_before, self.held_until];
        retries.into_iter().chain(waits).flatten()
    }

    fn driver_answered(&mut self, answer: Answer, now: Moment) -> Vec<Effect> {
        let mut effects = Vec::new();
        if self.name.as_ref().is_some_and(|name| *name != answer.name) {
            effects = self.let_go_of_the_name(now);
        }
        self.name = Some(answer.name.clone());
        if self.withdrawal == Some(Withdrawal::Absence) {
            self.withdrawal = None;
        }
        let news = self
            .answer()
            .is_none_or(|known| known.change_to(&answer) != Change::None);
        if news && !matches!(self.standing, Standing::Registered(_)) {
            self.announcer.renewed(now);
        }
        self.contact = Contact::Answering(answer);
        effects
    }

    fn driver_silent(&mut self, why: String, now: Moment) -> Vec<Effect> {
        let since = match &self.contact {
            Contact::Silent { since, .. } => *since,
            Contact::Untried | Contact::Answering(_) => now,
        };
        self.contact = Contact::Silent { since, why };
        Vec::new()
    }

    fn socket_served(&mut self, identity: Identity) -> Vec<Effect> {
        self.socket.stood(identity);
        Vec::new()
    }

    fn socket_blocked(&mut self, obstacle: Obstacle, now: Moment) -> Vec<Effect> {
        self.socket.blocked(obstacle, now);
        Vec::new()
    }

    fn link_published(&mut self, identity: Identity, now: Moment) -> Vec<Effect> {
        self.link.stood(identity);
        self.not_before = None;
        self.announcer.published(now);
        Vec::new()
    }

    fn link_blocked(&mut self, obstacle: Obstacle, now: Moment) -> Vec<Effect> {
        self.link.blocked(obstacle, now);
        Vec::new()
    }

    fn socket_seen(&mut self, seen: &Seen, now: Moment) -> Vec<Effect> {
        match (self.socket.identity(), seen) {
            (Some(ours), Seen::Ours(found)) if found == ours => {}
            (Some(_), _) => self.socket.disturbed(now),
            (None, _) => self.socket.look_again(),
        }
        Vec::new()
    }

    fn link_seen(&mut self, seen: Seen, now: Moment) -> Vec<Effect> {
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
            (None, Seen::Ours(found)) => {
                self.link.stood(found);
                self.announcer.adopted(now);
            }
            (None, Seen::NotOurs) => self.link.look_again(),
        }
        Vec::new()
    }

    /// The kubelet de-registers what it found through a link that is no longer there.
    fn link_changed(&mut self, now: Moment) {
        if matches!(
            self.standing,
            Standing::Registered(_) | Standing::Rejected { .. }
        ) {
            self.standing = Standing::Unregistered(Why::LinkChanged);
        }
        self.announcer.renewed(now);
    }

    fn kubelet_asked(&mut self, caller: Option<Process>) -> Vec<Effect> {
        self.asked = self.answer().cloned();
        self.announcer.asked(caller);
        Vec::new()
    }

    fn kubelet_registered(
        &mut self,
        kubelet: Option<Process>,
        through: Option<&Identity>,
    ) -> Vec<Effect> {
        let asked = self.asked.take();
        let asked = asked.filter(|asked| self.name.as_ref() == Some(&asked.name));
        // A kubelet de-registers what it found through a link that is no longer there. If it has
        // seen the new one, it says yes once more; if not, we announce.
        let link = self.link.identity();
        let stands =
            link.is_some_and(|link| through.is_none_or(|asked| asked.is_same_object(link)));
        if stands && let Some(answer) = asked.or_else(|| self.last_answer().cloned()) {
            self.standing = Standing::Registered(Registration {
                kubelet,
                answer,
                terms: self.terms.clone(),
            });
            self.announcer.settled(kubelet);
        }
        Vec::new()
    }

    fn kubelet_rejected(
        &mut self,
        kubelet: Option<Process>,
        error: String,
        now: Moment,
    ) -> Vec<Effect> {
        self.asked = None;
        if let Standing::Registered(registration) = &self.standing
            && registration.kubelet == kubelet
            && error.contains("already registered")
        {
            // It refuses a second path to the driver that it holds; the first one stands.
            return Vec::new();
        }
        if self.link.identity().is_none() {
            // It speaks of a link that is gone.
            return Vec::new();
        }
        self.standing = Standing::Rejected { kubelet, error };
        self.announcer.refused(now);
        Vec::new()
    }

    fn kubelet_ended(&mut self, process: Process, now: Moment) -> Vec<Effect> {
        let held = self.kubelet() == Some(process);
        if !held && self.standing != Standing::Unregistered(Why::DirectoryReplaced) {
            return Vec::new();
        }
        self.standing = Standing::Unregistered(Why::KubeletEnded);
        self.announcer.restarted(now);
        // Nobody holds the link now, so going back to the plain name costs nothing; but the next
        // kubelet may have asked through it before we heard of the end of the last.
        if self.slot == Slot::default() || self.asked.is_some() {
            Vec::new()
        } else {
            self.move_link(Slot::default())
        }
    }

    fn kubelet_started(&mut self, now: Moment) -> Vec<Effect> {
        match &self.standing {
            // Its end is seen by itself.
            Standing::Registered(Registration {
                kubelet: Some(_), ..
            }) => return Vec::new(),
            Standing::Registered(Registration { kubelet: None, .. })
            | Standing::Rejected { .. }
            | Standing::Unregistered(Why::DirectoryReplaced) => {
                self.standing = Standing::Unregistered(Why::KubeletEnded);
            }
            Standing::Unregistered(_) => {}
        }
        self.announcer.restarted(now);
        Vec::new()
    }

    fn directory_replaced(&mut self, now: Moment) -> Vec<Effect> {
        // The link was looked at first: a registration that is left came through the new directory.
        if matches!(self.standing, Standing::Registered(_)) {
            return Vec::new();
        }
        self.standing = Standing::Unregistered(Why::DirectoryReplaced);
        self.announcer.renewed(now);
        Vec::new()
    }

    fn ticked(&mut self, kubelet_there: bool, calling: bool, now: Moment) -> Vec<Effect> {
        self.not_before = self.not_before.filter(|at| now < *at);
        if self.absence_ends().is_some_and(|at| at <= now) {
            return self.withdrawn(Withdrawal::Absence);
        }
        let Some(name) = self.name.clone() else {
            return Vec::new();
        };
        if self.link.identity().is_none() || self.rule() != Rule::Wanted {
            return Vec::new();
        }
        if let Some(news) = self.owed() {
            if calling {
                self.held_until = Some(now + CALL_CHECK);
                return Vec::new();
            }
            self.held_until = None;
            self.asked_by_hand = false;
            self.standing = Standing::Unregistered(Why::Announced(news));
            self.announcer.renewed(now);
            return vec![Effect::Announce(name, self.slot)];
        }
        if matches!(self.standing, Standing::Registered(_)) {
            return Vec::new();
        }
        match self.announcer.decide(now, kubelet_there, calling) {
            Verdict::Wait => Vec::new(),
            Verdict::Announce => vec![Effect::Announce(name, self.slot)],
            Verdict::Rename => {
                self.not_before = Some(now + GAP);
                self.move_link(Slot(self.slot.0 + 1))
            }
        }
    }

    fn withdrawn(&mut self, withdrawal: Withdrawal) -> Vec<Effect> {
        self.withdrawal = Some(withdrawal);
        Vec::new()
    }

    fn published_by_hand(&mut self, now: Moment) -> Vec<Effect> {
        if self.withdrawal.take().is_some() {
            self.announcer.renewed(now);
        }
        Vec::new()
    }

    fn reannounced_by_hand(&mut self, now: Moment) -> Vec<Effect> {
        self.asked_by_hand = self.link.identity().is_some();
        self.announcer.renewed(now);
        Vec::new()
    }

    /// A driver that neither answers nor is registered has no use for its name.
    fn name_wanted(&mut self) -> Vec<Effect> {
        if self.answer().is_some()
            || matches!(self.standing, Standing::Registered(_))
            || self.contact == Contact::Untried
        {
            return Vec::new();
        }
        let effects = self.unserve();
        self.name = None;
        effects
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
            Rule::Wanted => {
                let early = self.not_before.is_some_and(|at| now < at);
                if self.socket.identity().is_some() && self.link.is_due(now) && !early {
                    vec![Effect::Publish(name, self.slot)]
                } else {
                    Vec::new()
                }
            }
            Rule::Unwanted => {
                if !matches!(self.standing, Standing::Unregistered(_)) {
                    self.standing = Standing::Unregistered(Why::NotYet);
                }
                self.unlink()
            }
            Rule::AsItIs => Vec::new(),
        }
    }

    /// The link exists exactly while the driver answers, or is registered with a kubelet that
    /// still runs; not while it is withdrawn.
    fn rule(&self) -> Rule {
        if self.withdrawal.is_some() {
            return Rule::Unwanted;
        }
        match (&self.standing, &self.contact) {
            (Standing::Registered(_), _) | (_, Contact::Answering(_)) => Rule::Wanted,
            (_, Contact::Silent { .. }) => Rule::Unwanted,
            (_, Contact::Untried) => Rule::AsItIs,
        }
    }

    /// What the kubelet must hear although the driver is registered.
    fn owed(&self) -> Option<String> {
        if self.asked_by_hand {
            return Some("by hand".to_owned());
        }
        let (Standing::Registered(registration), Contact::Answering(answer)) =
            (&self.standing, &self.contact)
        else {
            return None;
        };
        match registration.answer.change_to(answer) {
            Change::Announce(news) => Some(news),
            Change::Collision(_) => None,
            Change::None => registration.terms.change_to(&self.terms),
        }
    }

    fn obstacle(&self) -> Option<&Obstacle> {
        self.socket.obstacle().or(self.link.obstacle())
    }

    fn absence_ends(&self) -> Option<Moment> {
        match (&self.contact, self.withdraw_after) {
            (Contact::Silent { since, .. }, Some(after))
                if self.withdrawal.is_none() && self.link.identity().is_some() =>
            {
                Some(*since + after)
            }
            _ => None,
        }
    }

    fn let_go_of_the_name(&mut self, now: Moment) -> Vec<Effect> {
        let mut effects = self.unlink();
        if !effects.is_empty() {
            self.not_before = Some(now + GAP);
        }
        effects.extend(self.unserve());
        // Whatever was in the way of the old name is not in the way of the new one.
        self.link.cleared();
        self.socket.cleared();
        self.slot = Slot::default();
        self.standing = Standing::Unregistered(Why::NotYet);
        self.announcer.renewed(now);
        effects
    }

    fn move_link(&mut self, slot: Slot) -> Vec<Effect> {
        let effects = self.unlink();
        self.slot = slot;
        effects
    }

    fn unlink(&mut self) -> Vec<Effect> {
        let Some((name, slot, identity)) = self.links() else {
            return Vec::new();
        };
        let effect = Effect::Unlink(name.clone(), slot, identity.clone());
        self.link.cleared();
        vec![effect]
    }

    fn unserve(&mut self) -> Vec<Effect> {
        let Some((name, identity)) = self.serves() else {
            return Vec::new();
        };
        let effect = Effect::Unserve(name.clone(), identity.clone());
        self.socket.cleared();
        vec![effect]
    }
}
