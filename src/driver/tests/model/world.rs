//! The world of one driver: its disk, its process, its kubelet, us, and the hand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::kubelet::{Change, Kubelet, LinkId, Release, Told};
use crate::csi::answer::Answer;
use crate::driver::phase::Phase;
use crate::driver::tests::scenario::{answer, terms};
use crate::driver::{Driver, Effect, Event, Record, Seen};
use crate::identity::Identity;
use crate::kubelet::Process;
use crate::link::layout::Slot;
use crate::link::obstacle::Obstacle;
use crate::moment::Moment;

/// Every state is shifted in time so that it is now.
const NOW: Moment = Moment(10_000_000);
const RESYNC: Duration = Duration::from_secs(30);

/// Everything that matters for what can happen next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    release: Release,
    missing: Option<Missing>,
    now: Moment,
    /// None while we are down.
    us: Option<Driver>,
    /// state.json
    state: Option<Written>,
    pub(super) disk: Disk,
    csi: Csi,
    kubelet: Option<Kubelet>,
    /// The pid of the kubelet that runs, or of the last one.
    pid: u32,
    news: News,
    /// The last yes that we have heard: from which pid, through which link, for the driver as which
    /// node.
    held: Option<(u32, LinkId, String)>,
    budget: u8,
    next: u64,
}

/// What is in the directories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    links: BTreeMap<u32, LinkFile>,
    /// The registration socket, and whether we listen on it.
    pub(super) socket: Option<(u64, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LinkFile {
    Ours(LinkId),
    Foreign { alive: bool },
}

/// The driver's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Csi {
    up: bool,
    node: u8,
    /// NodeGetInfo fails when the kubelet calls it.
    fails: bool,
}

/// What happened and has not reached us yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct News {
    contact: bool,
    link: bool,
    socket: bool,
    /// Pids of kubelets that have ended.
    ended: BTreeSet<u32>,
    started: bool,
    directory: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Written(Record);

impl std::hash::Hash for Written {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        format!("{:?}", self.0).hash(state);
    }
}

/// A rule of recovery that is left out, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Missing {
    NoticingTheKubeletsEnd,
    AnnouncingAgain,
    LookingAtTheLink,
    LookingAtTheSocket,
    TheStateFile,
}

impl Missing {
    pub(super) const ALL: [Missing; 5] = [
        Missing::NoticingTheKubeletsEnd,
        Missing::AnnouncingAgain,
        Missing::LookingAtTheLink,
        Missing::LookingAtTheSocket,
        Missing::TheStateFile,
    ];
}

/// One thing that can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    // The hand's.
    DriverDies,
    DriverReturns,
    DriverReturnsAsAnotherNode,
    NodeGetInfoBreaks,
    NodeGetInfoWorksAgain,
    KubeletDies,
    KubeletStarts,
    WeAreKilled,
    LinkIsDeleted,
    LinkIsReplacedByAForeignOne,
    ForeignOwnerGoes,
    SocketIsDeleted,
    DirectoryIsMadeAnew,
    // Things that happen by themselves, sooner or later.
    WeStart,
    DriverIsHeard,
    KubeletsEndIsNoticed,
    KubeletsStartIsNoticed,
    DirectoryIsNoticed,
    LinkIsLookedAt,
    SocketIsLookedAt,
    KubeletLooks,
    KubeletWorks,
    WeTick,
    Resync,
}

const BY_HAND: [Step; 13] = [
    Step::DriverDies,
    Step::DriverReturns,
    Step::DriverReturnsAsAnotherNode,
    Step::NodeGetInfoBreaks,
    Step::NodeGetInfoWorksAgain,
    Step::KubeletDies,
    Step::KubeletStarts,
    Step::WeAreKilled,
    Step::LinkIsDeleted,
    Step::LinkIsReplacedByAForeignOne,
    Step::ForeignOwnerGoes,
    Step::SocketIsDeleted,
    Step::DirectoryIsMadeAnew,
];

/// In the order in which they happen when nothing interferes.
const BY_ITSELF: [Step; 11] = [
    Step::WeStart,
    Step::DriverIsHeard,
    Step::KubeletsEndIsNoticed,
    Step::KubeletsStartIsNoticed,
    Step::DirectoryIsNoticed,
    Step::LinkIsLookedAt,
    Step::SocketIsLookedAt,
    Step::KubeletLooks,
    Step::KubeletWorks,
    Step::WeTick,
    Step::Resync,
];

impl World {
    /// A driver and a kubelet run; we have never been there.
    pub(super) fn new(release: Release, budget: u8, missing: Option<Missing>) -> World {
        let disk = Disk::default();
        World {
            release,
            missing,
            now: NOW,
            us: None,
            state: None,
            kubelet: Some(Kubelet::start(release, &disk)),
            disk,
            csi: Csi {
                up: true,
                node: 1,
                fails: false,
            },
            pid: 1,
            news: News::default(),
            held: None,
            budget,
            next: 1,
        }
    }

    /// All that can happen now.
    pub(super) fn steps(&self) -> Vec<Step> {
        BY_HAND
            .into_iter()
            .chain(BY_ITSELF)
            .filter(|step| self.can(*step))
            .collect()
    }

    /// What happens next when nobody interferes.
    pub(super) fn next_by_itself(&self) -> Option<Step> {
        BY_ITSELF.into_iter().find(|step| self.can(*step))
    }

    fn can(&self, step: Step) -> bool {
        let paid = self.budget > 0;
        let up = self.us.is_some();
        match step {
            Step::DriverDies => paid && self.csi.up,
            Step::DriverReturns => !self.csi.up,
            Step::DriverReturnsAsAnotherNode => paid && !self.csi.up,
            Step::NodeGetInfoBreaks => paid && !self.csi.fails,
            Step::NodeGetInfoWorksAgain => self.csi.fails,
            Step::KubeletDies => paid && self.kubelet.is_some(),
            Step::KubeletStarts => self.kubelet.is_none(),
            Step::WeAreKilled => paid && up,
            Step::LinkIsDeleted => paid && !self.disk.our_links().is_empty(),
            Step::LinkIsReplacedByAForeignOne => paid && self.disk.our_links().contains_key(&0),
            Step::ForeignOwnerGoes => self.disk.has_foreign_owner(),
            Step::SocketIsDeleted => paid && self.disk.socket.is_some(),
            Step::DirectoryIsMadeAnew => {
                paid && self.kubelet.as_ref().is_some_and(|kubelet| !kubelet.blind)
            }
            Step::WeStart => !up,
            Step::DriverIsHeard => up && self.news.contact,
            Step::KubeletsEndIsNoticed => up && !self.news.ended.is_empty(),
            Step::KubeletsStartIsNoticed => up && self.news.started,
            Step::DirectoryIsNoticed => up && self.news.directory,
            Step::LinkIsLookedAt => up && self.news.link,
            Step::SocketIsLookedAt => up && self.news.socket,
            Step::KubeletLooks => self
                .kubelet
                .as_ref()
                .is_some_and(|kubelet| !kubelet.events.is_empty()),
            Step::KubeletWorks => self
                .kubelet
                .as_ref()
                .is_some_and(|kubelet| kubelet.has_work(self.now).is_some()),
            Step::WeTick => self.us.as_ref().is_some_and(|us| us.deadline().is_some()),
            Step::Resync => up,
        }
    }

    /// Does one step; an error is a rule that was broken on the way.
    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::DriverDies | Step::NodeGetInfoBreaks | Step::KubeletDies | Step::WeAreKilled => {
                self.budget -= 1
            }
            Step::LinkIsDeleted | Step::LinkIsReplacedByAForeignOne | Step::SocketIsDeleted => {
                self.budget -= 1
            }
            Step::DirectoryIsMadeAnew | Step::DriverReturnsAsAnotherNode => self.budget -= 1,
            _ => {}
        }
        match step {
            Step::DriverDies => self.driver_is(Csi {
                up: false,
                ..self.csi
            }),
            Step::DriverReturns => self.driver_is(Csi {
                up: true,
                ..self.csi
            }),
            Step::DriverReturnsAsAnotherNode => {
                self.driver_is(Csi {
                    up: true,
                    node: 3 - self.csi.node,
                    ..self.csi
                });
            }
            Step::NodeGetInfoBreaks => self.csi.fails = true,
            Step::NodeGetInfoWorksAgain => self.csi.fails = false,
            Step::KubeletDies => {
                self.kubelet = None;
                self.news.ended.insert(self.pid);
            }
            Step::KubeletStarts => {
                self.pid += 1;
                self.kubelet = Some(Kubelet::start(self.release, &self.disk));
                self.news.started = true;
            }
            Step::WeAreKilled => self.we_end(),
            Step::LinkIsDeleted => self.delete_link(),
            Step::LinkIsReplacedByAForeignOne => {
                self.put_link(0, LinkFile::Foreign { alive: true });
                self.news.link = true;
            }
            Step::ForeignOwnerGoes => {
                self.disk
                    .links
                    .insert(0, LinkFile::Foreign { alive: false });
                self.news.link = true;
            }
            Step::SocketIsDeleted => {
                self.disk.socket = None;
                self.news.socket = true;
            }
            Step::DirectoryIsMadeAnew => self.make_directory_anew(),
            Step::WeStart => return self.we_start(),
            Step::DriverIsHeard => {
                self.news.contact = false;
                let event = if self.csi.up {
                    Event::DriverAnswered(as_node(self.csi.node))
                } else {
                    Event::DriverSilent("gone".to_owned())
                };
                return self.apply(event);
            }
            Step::KubeletsEndIsNoticed => {
                let Some(pid) = self.news.ended.pop_first() else {
                    return Ok(());
                };
                if self.missing != Some(Missing::NoticingTheKubeletsEnd) {
                    return self.apply(Event::KubeletEnded(process(pid)));
                }
            }
            Step::KubeletsStartIsNoticed => {
                self.news.started = false;
                return self.apply(Event::KubeletStarted);
            }
            Step::DirectoryIsNoticed => {
                self.news.directory = false;
                self.look_at_link()?;
                return self.apply(Event::DirectoryReplaced);
            }
            Step::LinkIsLookedAt => return self.look_at_link(),
            Step::SocketIsLookedAt => return self.look_at_socket(),
            Step::KubeletLooks => {
                if let Some(kubelet) = &mut self.kubelet {
                    kubelet.handle_event(&self.disk);
                }
            }
            Step::KubeletWorks => return self.kubelet_works(),
            Step::WeTick => {
                let deadline = self
                    .us
                    .as_ref()
                    .and_then(Driver::deadline)
                    .unwrap_or_default();
                self.now = self.now.max(deadline);
                return self.tick();
            }
            Step::Resync => {
                self.now = self.now + RESYNC;
                self.look_at_link()?;
                self.look_at_socket()?;
                return self.tick();
            }
        }
        Ok(())
    }

    /// Driver and kubelet are there, and nobody is in the way.
    pub(super) fn could_be_registered(&self) -> bool {
        let sees = self.kubelet.as_ref().is_some_and(|kubelet| !kubelet.blind);
        self.csi.up && !self.csi.fails && sees && !self.disk.has_foreign_owner()
    }

    /// The kubelet has the driver as it is, through the link as it is, and we know it.
    pub(super) fn is_registered(&self) -> bool {
        let Some(kubelet) = &self.kubelet else {
            return false;
        };
        let ours = self.disk.our_links();
        kubelet.registered == Some(self.csi.node)
            && ours.keys().any(|slot| kubelet.holds(*slot))
            && self
                .us
                .as_ref()
                .is_some_and(|us| us.phase() == Phase::Registered)
            && self.news == News::default()
            && kubelet.events.is_empty()
            && kubelet.has_work(self.now).is_none()
    }

    /// Equal situations become equal states: it is always now, and files are numbered from one.
    pub(super) fn normalise(&mut self) {
        // Time passes as it likes, so only the order of what is to come matters.
        let ours = self.us.iter().flat_map(Driver::times);
        let theirs = self.kubelet.iter().flat_map(Kubelet::times);
        let to_come: BTreeSet<Moment> = ours.chain(theirs).filter(|at| *at > self.now).collect();
        let time = |at: Moment| NOW + Duration::from_secs(to_come.range(..=at).count() as u64);
        let mut numbers = Numbers::default();
        for link in self.disk.our_links().values() {
            numbers.note(*link);
        }
        if let Some((socket, _)) = self.disk.socket {
            numbers.note(socket);
        }
        if let Some(kubelet) = &self.kubelet {
            kubelet.links().for_each(|link| numbers.note(link));
        }
        for file in self.disk.links.values_mut() {
            if let LinkFile::Ours(link) = file {
                *link = numbers.of(*link);
            }
        }
        if let Some((socket, _)) = &mut self.disk.socket {
            *socket = numbers.of(*socket);
        }
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.normalise(|link| numbers.of(link), time);
        }
        if let Some(us) = &mut self.us {
            us.normalise(
                |identity| Identity::numbered(numbers.of(identity.number())),
                time,
                |pid| self.pid == pid,
            );
        }
        if let Some(Written(record)) = &mut self.state {
            if let Some(link) = &mut record.link {
                *link = Identity::numbered(numbers.of(link.number()));
            }
            if let Some(caller) = &mut record.called_by {
                *caller = process(u32::from(caller.pid == self.pid));
            }
            if let Some(kubelet) = record
                .registration
                .as_mut()
                .and_then(|registered| registered.kubelet.as_mut())
            {
                *kubelet = process(u32::from(kubelet.pid == self.pid));
            }
        }
        self.held = self
            .held
            .take()
            .map(|(pid, link, node)| (u32::from(pid == self.pid), numbers.of(link), node));
        self.news.ended = self
            .news
            .ended
            .iter()
            .map(|pid| u32::from(*pid == self.pid))
            .collect();
        self.pid = 1;
        self.now = NOW;
        self.next = numbers.next();
    }

    fn driver_is(&mut self, csi: Csi) {
        self.csi = csi;
        self.news.contact = true;
    }

    fn we_end(&mut self) {
        self.us = None;
        self.news = News::default();
        if let Some((_, listening)) = &mut self.disk.socket {
            *listening = false;
        }
        if let Some(call) = self
            .kubelet
            .as_mut()
            .and_then(|kubelet| kubelet.call.as_mut())
        {
            call.connected = false;
        }
    }

    fn we_start(&mut self) -> Result<(), String> {
        let mut us = Driver::new(None, terms());
        if self.missing == Some(Missing::TheStateFile) {
            self.state = None;
        }
        match &self.state {
            Some(Written(record)) => {
                let slot = record.slot.0;
                let link = self
                    .disk
                    .our_links()
                    .get(&slot)
                    .map(|link| Identity::numbered(*link));
                let runs = |kubelet| self.kubelet.is_some() && kubelet == process(self.pid);
                us.restore(record, link, runs, self.now);
                self.sweep(Some(slot))?;
            }
            None => self.sweep(None)?,
        }
        self.us = Some(us);
        self.news = News {
            contact: true,
            ..News::default()
        };
        self.tick()?;
        self.look_at_link()
    }

    /// Links of ours that lead to a socket nobody serves, but for the one that is known.
    fn sweep(&mut self, kept: Option<u32>) -> Result<(), String> {
        let ours = self.disk.our_links().into_keys();
        for slot in ours.filter(|slot| Some(*slot) != kept) {
            self.must_not_stand(Slot(slot))?;
            self.disk.links.remove(&slot);
            self.kubelet_sees(slot, Change::Removed);
        }
        Ok(())
    }

    fn delete_link(&mut self) {
        for slot in self.disk.our_links().into_keys() {
            self.disk.links.remove(&slot);
            self.kubelet_sees(slot, Change::Removed);
        }
        self.news.link = true;
    }

    fn make_directory_anew(&mut self) {
        self.delete_link();
        self.disk.links.clear();
        self.news.directory = true;
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.blind = true;
        }
    }

    fn look_at_link(&mut self) -> Result<(), String> {
        self.news.link = false;
        let Some(us) = &self.us else { return Ok(()) };
        if us.name().is_none() || self.missing == Some(Missing::LookingAtTheLink) {
            return Ok(());
        }
        let seen = match self.disk.our_links().get(&us.slot().0) {
            Some(link) => Seen::Ours(Identity::numbered(*link)),
            None => Seen::NotOurs,
        };
        self.apply(Event::LinkSeen(seen))
    }

    fn look_at_socket(&mut self) -> Result<(), String> {
        self.news.socket = false;
        let Some(us) = &self.us else { return Ok(()) };
        if us.name().is_none() || self.missing == Some(Missing::LookingAtTheSocket) {
            return Ok(());
        }
        let ours = us.serves().map(|(_, identity)| identity.clone());
        let found = self
            .disk
            .socket
            .map(|(socket, _)| Identity::numbered(socket));
        let seen = match found {
            Some(found) if ours.as_ref() == Some(&found) => Seen::Ours(found),
            _ => Seen::NotOurs,
        };
        self.apply(Event::SocketSeen(seen))
    }

    fn tick(&mut self) -> Result<(), String> {
        let kubelet_there = self.kubelet.is_some();
        let calling = self
            .kubelet
            .as_ref()
            .and_then(|kubelet| kubelet.call)
            .is_some_and(|call| call.connected);
        self.apply(Event::Ticked {
            kubelet_there,
            calling,
        })
    }

    fn kubelet_works(&mut self) -> Result<(), String> {
        let serving = self.disk.socket.is_some_and(|(_, listening)| listening);
        let offer = serving && self.us.as_ref().is_some_and(|us| us.answer().is_some());
        let node = (self.csi.up && !self.csi.fails).then_some(self.csi.node);
        let Some(kubelet) = &mut self.kubelet else {
            return Ok(());
        };
        self.now = kubelet.has_work(self.now).unwrap_or(self.now);
        let through = kubelet.call.and_then(|call| call.through);
        let standing = self
            .us
            .as_ref()
            .and_then(Driver::links)
            .map(|(_, _, link)| link.number());
        match kubelet.work(self.now, offer, standing, node, self.us.is_some()) {
            Told::Nothing => Ok(()),
            Told::Asked => self.apply(Event::KubeletAsked(Some(process(self.pid)))),
            Told::Registered => {
                self.look_at_link()?;
                let through = through.map(Identity::numbered);
                let kubelet = Some(process(self.pid));
                self.apply(Event::KubeletRegistered { kubelet, through })?;
                let us = self
                    .us
                    .as_ref()
                    .filter(|us| us.phase() == Phase::Registered);
                if let Some((us, (_, _, link))) = us.and_then(|us| Some((us, us.links()?))) {
                    // Which node the driver itself told the kubelet cannot be seen from here.
                    let record = us.record().registration;
                    let node = record.map(|registered| registered.answer.node_id);
                    self.held = Some((self.pid, link.number(), node.unwrap_or_default()));
                }
                Ok(())
            }
            Told::Rejected => {
                self.look_at_link()?;
                let words = if self
                    .kubelet
                    .as_ref()
                    .is_some_and(|kubelet| kubelet.registered.is_some())
                {
                    "already registered"
                } else {
                    "no"
                };
                self.apply(Event::KubeletRejected(
                    Some(process(self.pid)),
                    words.to_owned(),
                ))
            }
        }
    }

    fn apply(&mut self, event: Event) -> Result<(), String> {
        let Some(us) = &mut self.us else {
            return Ok(());
        };
        for effect in us.apply(event, self.now) {
            if let Some(outcome) = self.perform(&effect)? {
                self.apply(outcome)?;
            }
        }
        if self.disk.our_links().len() > 1 {
            return Err("two links of ours stand at once".to_owned());
        }
        Ok(())
    }

    fn perform(&mut self, effect: &Effect) -> Result<Option<Event>, String> {
        let Some(us) = &self.us else { return Ok(None) };
        match effect {
            Effect::Serve(_) if us.serves().is_some() => Ok(None),
            Effect::Serve(_) => {
                let socket = self.new_number();
                self.disk.socket = Some((socket, true));
                Ok(Some(Event::SocketServed(Identity::numbered(socket))))
            }
            Effect::Publish(..) if us.links().is_some() => Ok(None),
            Effect::Publish(_, slot) => self.publish(*slot),
            Effect::Announce(_, slot) => self.announce(*slot),
            Effect::Unlink(_, slot, identity) => {
                if self.disk.links.get(&slot.0) == Some(&LinkFile::Ours(identity.number())) {
                    self.must_not_stand(*slot)?;
                    self.disk.links.remove(&slot.0);
                    self.kubelet_sees(slot.0, Change::Removed);
                }
                Ok(None)
            }
            Effect::Unserve(..) => {
                self.disk.socket = None;
                Ok(None)
            }
            Effect::Save => {
                self.state = Some(Written(us.record()));
                Ok(None)
            }
        }
    }

    fn publish(&mut self, slot: Slot) -> Result<Option<Event>, String> {
        self.must_listen()?;
        match self.disk.links.get(&slot.0) {
            Some(LinkFile::Ours(link)) => Ok(Some(Event::LinkPublished(Identity::numbered(*link)))),
            Some(LinkFile::Foreign { alive: true }) => Ok(Some(Event::LinkBlocked(
                Obstacle::LiveOwner("pid 1".to_owned()),
            ))),
            Some(LinkFile::Foreign { alive: false }) | None => Ok(Some(self.make_link(slot))),
        }
    }

    fn announce(&mut self, slot: Slot) -> Result<Option<Event>, String> {
        self.must_listen()?;
        if let Some(LinkFile::Foreign { alive: true }) = self.disk.links.get(&slot.0) {
            return Ok(Some(Event::LinkBlocked(Obstacle::LiveOwner(
                "pid 1".to_owned(),
            ))));
        }
        self.must_not_stand(slot)?;
        if self.missing == Some(Missing::AnnouncingAgain) {
            let link = self
                .disk
                .our_links()
                .get(&slot.0)
                .copied()
                .unwrap_or_default();
            return Ok(Some(Event::LinkPublished(Identity::numbered(link))));
        }
        Ok(Some(self.make_link(slot)))
    }

    fn must_listen(&self) -> Result<(), String> {
        match self.disk.socket {
            Some((_, true)) => Ok(()),
            // Deleted under us, and we have not looked yet.
            None if self.news.socket => Ok(()),
            _ => Err("a link is published before the socket listens".to_owned()),
        }
    }

    /// A link is neither made anew nor taken away while a yes that we have heard stands for the
    /// driver as it is.
    fn must_not_stand(&self, slot: Slot) -> Result<(), String> {
        let Some(kubelet) = &self.kubelet else {
            return Ok(());
        };
        let known = self.us.as_ref().and_then(Driver::answer);
        let same_driver = |node: &str| known.is_none_or(|answer| answer.node_id == node);
        match (&self.held, self.disk.our_links().get(&slot.0)) {
            (Some((pid, link, node)), Some(standing))
                if *pid == self.pid
                    && link == standing
                    && same_driver(node)
                    && kubelet.holds(slot.0) =>
            {
                Err("a registration that stands for the driver as it is was disturbed".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn make_link(&mut self, slot: Slot) -> Event {
        let link = self.new_number();
        self.put_link(slot.0, LinkFile::Ours(link));
        Event::LinkPublished(Identity::numbered(link))
    }

    fn put_link(&mut self, slot: u32, file: LinkFile) {
        let new = self.disk.links.insert(slot, file).is_none();
        let change = if matches!(file, LinkFile::Ours(_)) {
            Change::Created
        } else {
            Change::Removed
        };
        if change == Change::Created || !new {
            self.kubelet_sees(slot, change);
        }
    }

    fn kubelet_sees(&mut self, slot: u32, change: Change) {
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.sees(slot, change);
        }
    }

    fn new_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Disk {
    pub(super) fn our_links(&self) -> BTreeMap<u32, LinkId> {
        let ours = |(slot, file): (&u32, &LinkFile)| match file {
            LinkFile::Ours(link) => Some((*slot, *link)),
            LinkFile::Foreign { .. } => None,
        };
        self.links.iter().filter_map(ours).collect()
    }

    fn has_foreign_owner(&self) -> bool {
        self.links
            .values()
            .any(|file| matches!(file, LinkFile::Foreign { alive: true }))
    }
}

/// Numbers files in the order in which they are found; what is not found any more is zero.
#[derive(Default)]
struct Numbers(BTreeMap<u64, u64>);

impl Numbers {
    fn note(&mut self, number: u64) {
        let next = self.0.len() as u64 + 1;
        self.0.entry(number).or_insert(next);
    }

    fn of(&self, number: u64) -> u64 {
        self.0.get(&number).copied().unwrap_or_default()
    }

    fn next(&self) -> u64 {
        self.0.len() as u64 + 1
    }
}

fn process(pid: u32) -> Process {
    Process { pid, started: 0 }
}

fn as_node(node: u8) -> Answer {
    Answer {
        node_id: node.to_string(),
        ..answer()
    }
}
