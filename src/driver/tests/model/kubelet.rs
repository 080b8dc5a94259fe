//! A small kubelet: what its plugin manager does with links, without the waiting.

use std::collections::VecDeque;
use std::time::Duration;

use super::world::Disk;
use crate::os::clock::Moment;

const BACKOFF: Duration = Duration::from_secs(1);

/// Which kubelet's ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Release {
    V1_24,
    V1_35,
    V1_36,
}

impl Release {
    pub(super) const ALL: [Release; 3] = [Release::V1_24, Release::V1_35, Release::V1_36];

    fn walks_links(self) -> bool {
        self != Release::V1_24
    }

    fn retries_after_get_info(self) -> bool {
        self == Release::V1_36
    }
}

/// Links have a number that no other link ever has.
pub(super) type LinkId = u64;

/// A kubelet that runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Kubelet {
    release: Release,
    /// What inotify has told and the kubelet has not looked at yet.
    pub(super) events: VecDeque<Change>,
    /// Its directory was deleted: it sees nothing any more.
    pub(super) blind: bool,
    desired: Option<LinkId>,
    /// What it holds as dealt with, whether that went well or not.
    actual: Option<LinkId>,
    pub(super) call: Option<Call>,
    /// The driver is in the cluster.
    pub(super) registered: Option<Entry>,
    /// Until when it leaves the path alone. How long that is does not matter here: time passes as
    /// it likes.
    failed: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Change {
    Created,
    Removed,
}

/// A driver as the cluster knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) node: u8,
    /// Where its socket is.
    pub(super) place: usize,
}

/// Between GetInfo and Notify.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Call {
    link: LinkId,
    /// Which driver of ours has answered, and where that one says that its socket is.
    pub(super) place: usize,
    /// The registrar that answered GetInfo still holds the connection.
    pub(super) connected: bool,
    /// The link that stood when GetInfo was answered.
    pub(super) through: Option<LinkId>,
}

/// What a step of the kubelet tells the registrar, if it is there to hear it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    Nothing,
    Asked,
    Registered,
    Rejected,
}

impl Kubelet {
    /// Starts, and walks through its directory.
    pub(super) fn start(release: Release, disk: &Disk) -> Kubelet {
        let mut kubelet = Kubelet {
            release,
            events: VecDeque::new(),
            blind: false,
            desired: None,
            actual: None,
            call: None,
            registered: None,
            failed: None,
        };
        if release.walks_links() && disk.socket.is_some() {
            kubelet.desired = disk.our_link();
        }
        kubelet
    }

    pub(super) fn sees(&mut self, change: Change) {
        // The same event twice in a row says nothing new: each is only a reason to look.
        if !self.blind && self.events.back() != Some(&change) {
            self.events.push_back(change);
        }
    }

    /// Looks at the oldest event. A link that leads nowhere is dropped, and never looked at again.
    pub(super) fn handle_event(&mut self, disk: &Disk) {
        match self.events.pop_front() {
            Some(Change::Removed) => self.desired = None,
            Some(Change::Created) => {
                if let Some(link) = disk.our_link().filter(|_| disk.socket.is_some()) {
                    self.desired = Some(link);
                }
            }
            None => {}
        }
    }

    /// Whether a round of the reconciler would do something, and from when on. A round comes once
    /// a second; events are looked at within microseconds, so before it.
    pub(super) fn has_work(&self, now: Moment) -> Option<Moment> {
        if self.call.is_some() {
            return Some(now);
        }
        if !self.events.is_empty() {
            return None;
        }
        (self.actual != self.desired).then(|| self.ready().max(now))
    }

    /// One operation: de-register what is gone, else call what is new, else finish the call.
    /// `offer` is the place that the registrar answers GetInfo with; `driver` what answers NodeGetInfo,
    /// none when that fails.
    pub(super) fn work(
        &mut self,
        now: Moment,
        offer: Option<usize>,
        standing: Option<LinkId>,
        driver: Option<Entry>,
        registrar_up: bool,
    ) -> Told {
        if let Some(call) = self.call.take() {
            let driver = driver.filter(|driver| driver.place == call.place);
            return self.finish(call, now, driver, registrar_up);
        }
        if self.actual == self.desired || self.ready() > now {
            return Told::Nothing;
        }
        if self.actual.is_some() {
            self.actual = None;
            self.failed = None;
            // By the driver's name.
            self.registered = None;
            return Told::Nothing;
        }
        let Some(link) = self.desired else {
            return Told::Nothing;
        };
        let Some(place) = offer else {
            self.fail(now);
            return Told::Nothing;
        };
        self.call = Some(Call {
            link,
            place,
            connected: true,
            through: standing,
        });
        Told::Asked
    }

    fn finish(
        &mut self,
        call: Call,
        now: Moment,
        driver: Option<Entry>,
        registrar_up: bool,
    ) -> Told {
        let heard = call.connected && registrar_up;
        if self.registered.is_some() {
            self.fail(now);
            return if heard { Told::Rejected } else { Told::Nothing };
        }
        self.actual = Some(call.link);
        let Some(driver) = driver else {
            self.fail(now);
            if self.release.retries_after_get_info() {
                self.actual = None;
            }
            return if heard { Told::Rejected } else { Told::Nothing };
        };
        self.registered = Some(driver);
        if heard {
            self.failed = None;
            return Told::Registered;
        }
        self.fail(now);
        if self.release.retries_after_get_info() {
            self.actual = None;
            self.registered = None;
        }
        Told::Nothing
    }

    fn fail(&mut self, now: Moment) {
        self.failed = Some(now + BACKOFF);
    }

    fn ready(&self) -> Moment {
        self.failed.unwrap_or_default()
    }

    /// The driver is registered through a link, and nothing is on its way to end that.
    pub(super) fn holds_driver(&self) -> bool {
        self.registered.is_some()
            && self.actual.is_some()
            && self.actual == self.desired
            && self.events.is_empty()
    }

    /// Renumbers links and shifts times, so that equal situations are equal states.
    pub(super) fn normalise(
        &mut self,
        link: impl Fn(LinkId) -> LinkId,
        time: impl Fn(Moment) -> Moment,
    ) {
        self.desired = self.desired.map(&link);
        self.actual = self.actual.map(&link);
        if let Some(call) = &mut self.call {
            call.link = link(call.link);
            call.through = call.through.map(&link);
        }
        let now = time(Moment::default());
        self.failed = self.failed.map(&time).filter(|ready| *ready > now);
    }

    pub(super) fn times(&self) -> impl Iterator<Item = Moment> {
        self.failed.into_iter()
    }

    pub(super) fn links(&self) -> impl Iterator<Item = LinkId> {
        let called = self
            .call
            .into_iter()
            .flat_map(|call| [Some(call.link), call.through])
            .flatten();
        self.desired.into_iter().chain(self.actual).chain(called)
    }
}
