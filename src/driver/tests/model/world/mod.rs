//! The world of one driver: its disk, its process, its kubelet, us, and the hand.

mod normalising;
mod ourselves;
mod performing;
mod step;

use std::collections::BTreeSet;
use std::time::Duration;

use self::step::{BY_HAND, BY_ITSELF};
pub(super) use self::step::{Missing, Step};
use super::kubelet::{Change, Entry, Kubelet, LinkId, Release, Told};
use crate::disk::identity::Identity;
use crate::driver::answer::Answer;
use crate::driver::phase::Phase;
use crate::driver::tests::scenario::{answer, in_use};
use crate::driver::{Driver, Event, Record};
use crate::kubelet::volumes::VolumeUse;
use crate::os::clock::Moment;
use crate::os::process::Process;

/// The driver may come back at another socket of ours, of another id.
const PLACES: usize = 2;
/// Every state is shifted in time so that it is now.
const NOW: Moment = Moment(10_000_000);
const RESYNC: Duration = Duration::from_secs(30);

/// Everything that matters for what can happen next.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    release: Release,
    missing: Option<Missing>,
    now: Moment,
    /// A driver for each place where the driver's process may listen; none while we are down.
    us: Option<[Driver; PLACES]>,
    /// state.json
    state: Option<[Written; PLACES]>,
    pub(super) disk: Disk,
    csi: Csi,
    kubelet: Option<Kubelet>,
    /// The pid of the kubelet that runs, or of the last one.
    pid: u32,
    news: News,
    /// The last yes that we have heard: from which pid, through which link, for the driver as which
    /// node, and where.
    held: Option<(u32, LinkId, String, usize)>,
    /// Somebody wants an announcement, and has not got it yet.
    wished: bool,
    /// Whether a pod has a volume of the driver; none in a world where no driver leaves.
    used: Option<bool>,
    /// A look at the volumes is under way.
    asked: [bool; PLACES],
    budget: u8,
    next: u64,
}

/// What is in the directories.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Disk {
    link: Option<LinkFile>,
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
    /// Which of the places it listens at.
    place: usize,
    /// It has been at the second place, too.
    moved: bool,
    node: u8,
    /// NodeGetInfo fails when the kubelet calls it.
    fails: bool,
}

/// What happened and has not reached us yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct News {
    contact: [bool; PLACES],
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

impl World {
    /// A driver and a kubelet run; we have never been there.
    pub(super) fn new(release: Release, budget: u8, missing: Option<Missing>) -> World {
        World::with_volumes(release, budget, missing, None)
    }

    /// The same, where a driver that is away leaves at once unless it is in use.
    pub(super) fn where_drivers_leave(
        release: Release,
        budget: u8,
        missing: Option<Missing>,
    ) -> World {
        World::with_volumes(release, budget, missing, Some(false))
    }

    fn with_volumes(
        release: Release,
        budget: u8,
        missing: Option<Missing>,
        used: Option<bool>,
    ) -> World {
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
                place: 0,
                moved: false,
                node: 1,
                fails: false,
            },
            pid: 1,
            news: News::default(),
            held: None,
            wished: false,
            used,
            asked: [false; PLACES],
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
            Step::DriverReturnsAsAnotherNode | Step::DriverReturnsElsewhere => paid && !self.csi.up,
            Step::IdIsRenamed => paid && up,
            Step::ReannouncedByHand => paid && self.holder().is_some_and(|us| us.links().is_some()),
            Step::NodeGetInfoBreaks => paid && !self.csi.fails,
            Step::NodeGetInfoWorksAgain => self.csi.fails,
            Step::KubeletDies => paid && self.kubelet.is_some(),
            Step::KubeletStarts => self.kubelet.is_none(),
            Step::WeAreKilled => paid && up,
            Step::LinkIsDeleted => paid && self.disk.our_link().is_some(),
            Step::LinkIsReplacedByAForeignOne => paid && self.disk.our_link().is_some(),
            Step::ForeignOwnerGoes => self.disk.has_foreign_owner(),
            Step::SocketIsDeleted => paid && self.disk.socket.is_some(),
            Step::DirectoryIsMadeAnew => {
                paid && self.kubelet.as_ref().is_some_and(|kubelet| !kubelet.blind)
            }
            Step::PodGetsAVolume => {
                let kubelet = self.kubelet.as_ref();
                let is_known = kubelet.is_some_and(|kubelet| kubelet.registered.is_some());
                paid && self.used == Some(false) && is_known && self.csi.up
            }
            Step::PodGoes => self.is_used(),
            Step::WithdrawnByHand => paid && self.used.is_some() && self.holding().is_some(),
            Step::PublishedByHand => up && self.is_withdrawn(),
            Step::VolumesAreLookedAt => up && self.asked.contains(&true),
            Step::WeStart => !up,
            Step::DriverIsHeard => up && self.news.contact.contains(&true),
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
            Step::WeTick => self.deadline().is_some(),
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
            Step::DirectoryIsMadeAnew
            | Step::DriverReturnsAsAnotherNode
            | Step::DriverReturnsElsewhere
            | Step::IdIsRenamed
            | Step::PodGetsAVolume
            | Step::WithdrawnByHand
            | Step::ReannouncedByHand => self.budget -= 1,
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
            Step::DriverReturnsElsewhere => {
                self.driver_is(Csi {
                    up: true,
                    place: 1 - self.csi.place,
                    moved: true,
                    ..self.csi
                });
            }
            Step::IdIsRenamed => self.rename_the_id(),
            Step::ReannouncedByHand => {
                let holder = self.holding();
                let is_silent = self.holder().is_some_and(Driver::is_silent);
                self.wished |= !is_silent;
                return holder.map_or(Ok(()), |place| {
                    self.apply(place, Event::Reannounce("by hand"))
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
                self.put_link(LinkFile::Foreign { alive: true });
                self.news.link = true;
            }
            Step::ForeignOwnerGoes => {
                self.disk.link = Some(LinkFile::Foreign { alive: false });
                self.news.link = true;
            }
            Step::SocketIsDeleted => {
                self.disk.socket = None;
                self.news.socket = true;
            }
            Step::DirectoryIsMadeAnew => self.make_directory_anew(),
            Step::PodGetsAVolume => self.used = Some(true),
            Step::PodGoes => self.used = Some(false),
            Step::WithdrawnByHand => {
                let event = Event::Withdraw(self.volumes());
                let holder = self.holding();
                return holder.map_or(Ok(()), |place| self.apply(place, event));
            }
            Step::PublishedByHand => return self.apply_to_all(&Event::Publish),
            Step::VolumesAreLookedAt => {
                let place = usize::from(!self.asked[0]);
                self.asked[place] = false;
                return self.apply(place, Event::VolumesSeen(self.volumes()));
            }
            Step::WeStart => return self.we_start(),
            Step::DriverIsHeard => {
                let place = usize::from(!self.news.contact[0]);
                self.news.contact[place] = false;
                return self.hear(place);
            }
            Step::KubeletsEndIsNoticed => {
                let Some(pid) = self.news.ended.pop_first() else {
                    return Ok(());
                };
                if self.missing != Some(Missing::NoticingTheKubeletsEnd) {
                    return self.apply_to_all(&Event::KubeletEnded(process(pid)));
                }
            }
            Step::KubeletsStartIsNoticed => {
                self.news.started = false;
                return self.apply_to_all(&Event::KubeletStarted);
            }
            Step::DirectoryIsNoticed => {
                self.news.directory = false;
                self.look_at_link()?;
                return self.apply_to_all(&Event::DirectoryReplaced);
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
                self.now = self.now.max(self.deadline().unwrap_or_default());
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
        let is_wanted = self.csi.up && !self.csi.fails && !self.is_withdrawn();
        is_wanted && sees && !self.disk.has_foreign_owner()
    }

    /// The kubelet has the driver as it is, through the link as it is, and we know it.
    pub(super) fn is_registered(&self) -> bool {
        let Some(kubelet) = &self.kubelet else {
            return false;
        };
        let Csi { node, place, .. } = self.csi;
        kubelet.registered == Some(Entry { node, place })
            && self.disk.our_link().is_some()
            && kubelet.holds_driver()
            && self
                .us
                .as_ref()
                .is_some_and(|us| us[place].phase() == Phase::Registered)
            && self.news == News::default()
            && kubelet.events.is_empty()
            && kubelet.has_work(self.now).is_none()
    }

    fn driver_is(&mut self, csi: Csi) {
        self.news.contact[self.csi.place] = true;
        self.news.contact[csi.place] = true;
        self.csi = csi;
    }

    fn is_used(&self) -> bool {
        self.used == Some(true)
    }

    fn is_withdrawn(&self) -> bool {
        match (&self.us, &self.state) {
            (Some(us), _) => us.iter().any(|us| us.record().withdrawn_by_hand),
            (None, Some(state)) => state.iter().any(|written| written.0.withdrawn_by_hand),
            (None, None) => false,
        }
    }

    /// The volumes, as a look finds them.
    fn volumes(&self) -> VolumeUse {
        match self.is_used() && self.missing != Some(Missing::LookingAtTheVolumes) {
            true => in_use(),
            false => VolumeUse::Free,
        }
    }

    /// Whoever serves under the name.
    fn holding(&self) -> Option<usize> {
        let us = self.us.as_ref()?;
        (0..PLACES).find(|place| us[*place].serves().is_some())
    }

    fn holder(&self) -> Option<&Driver> {
        Some(&self.us.as_ref()?[self.holding()?])
    }

    fn deadline(&self) -> Option<Moment> {
        let us = self.us.as_ref()?;
        us.iter().filter_map(Driver::deadline).min()
    }

    fn delete_link(&mut self) {
        if self.disk.our_link().is_some() {
            self.disk.link = None;
            self.kubelet_sees(Change::Removed);
        }
        self.news.link = true;
    }

    fn make_directory_anew(&mut self) {
        self.delete_link();
        self.disk.link = None;
        self.news.directory = true;
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.blind = true;
        }
    }

    fn kubelet_works(&mut self) -> Result<(), String> {
        let listening = self.disk.socket.is_some_and(|(_, listening)| listening);
        let holding = self.holding().filter(|_| listening);
        let offer = holding.filter(|_| self.holder().is_some_and(|us| us.answer().is_some()));
        let Csi { node, place, .. } = self.csi;
        let driver = (self.csi.up && !self.csi.fails).then_some(Entry { node, place });
        let standing = self
            .holder()
            .and_then(Driver::links)
            .map(|(_, link)| link.number());
        let Some(kubelet) = &mut self.kubelet else {
            return Ok(());
        };
        self.now = kubelet.has_work(self.now).unwrap_or(self.now);
        let call = kubelet.call;
        let told = kubelet.work(self.now, offer, standing, driver, self.us.is_some());
        // Who has answered GetInfo hears how it went, though another may serve by now.
        let place = call.or(kubelet.call).map_or(0, |call| call.place);
        match told {
            Told::Nothing => Ok(()),
            Told::Asked => self.apply(place, Event::KubeletAsked),
            Told::Registered => {
                self.look_at_link()?;
                let through = call.and_then(|call| call.through).map(Identity::numbered);
                let kubelet = Some(process(self.pid));
                let event = Event::KubeletRegistered {
                    kubelet,
                    through,
                    told: None,
                };
                self.apply(place, event)?;
                let us = self.us.as_ref().map(|us| &us[place]);
                let us = us.filter(|us| us.phase() == Phase::Registered);
                if let Some((us, (_, link))) = us.and_then(|us| Some((us, us.links()?))) {
                    // Which node the driver itself told the kubelet cannot be seen from here.
                    let record = us.record().registration;
                    let node = record.map(|registered| registered.answer.node_id);
                    self.held = Some((self.pid, link.number(), node.unwrap_or_default(), place));
                }
                Ok(())
            }
            Told::Rejected => {
                self.look_at_link()?;
                let kubelet = self.kubelet.as_ref();
                let has_it = kubelet.is_some_and(|kubelet| kubelet.registered.is_some());
                let words = if has_it { "already registered" } else { "no" };
                let kubelet = Some(process(self.pid));
                self.apply(place, Event::KubeletRejected(kubelet, words.to_owned()))
            }
        }
    }

    fn new_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Disk {
    pub(super) fn our_link(&self) -> Option<LinkId> {
        match self.link {
            Some(LinkFile::Ours(link)) => Some(link),
            Some(LinkFile::Foreign { .. }) | None => None,
        }
    }

    fn has_foreign_owner(&self) -> bool {
        self.link == Some(LinkFile::Foreign { alive: true })
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
