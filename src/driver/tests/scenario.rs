//! Drivers in each phase, to start a test from.

use std::path::PathBuf;

use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::disk::obstacle::Obstacle;
use crate::driver::answer::Answer;
use crate::driver::phase::Phase;
use crate::driver::{Actions, AdvertisedInfo, Calling, Driver, Event, Files, Put, Removal, step};
use crate::kubelet::volumes::VolumeUse;
use crate::os::clock::Moment;
use crate::os::process::Process;

pub(in crate::driver) const KUBELET: Process = Process {
    pid: 7,
    started: 70,
};
pub(super) const STRANGER: Process = Process {
    pid: 8,
    started: 80,
};
pub(in crate::driver) const NOW: Moment = Moment(1_000_000);

pub(in crate::driver) fn advertised() -> AdvertisedInfo {
    AdvertisedInfo {
        endpoint: PathBuf::from("/e"),
        versions: vec!["1.0.0".to_owned()],
    }
}

pub(in crate::driver) fn name(name: &str) -> DriverName {
    DriverName::parse(name).unwrap()
}

pub(in crate::driver) fn answer() -> Answer {
    Answer {
        name: name("a.b"),
        vendor_version: "1".to_owned(),
        node_id: "n".to_owned(),
        max_volumes: 0,
        topology: [("zone".to_owned(), "z".to_owned())].into(),
    }
}

/// Two volumes of one pod.
pub(in crate::driver) fn in_use() -> VolumeUse {
    VolumeUse::InUse {
        volumes: 2,
        pods: vec!["p".to_owned()],
    }
}

/// A moment passes, and a kubelet is there.
pub(in crate::driver) fn ticked() -> Event {
    Event::Ticked {
        kubelet_there: true,
        calling: Calling::Nobody,
    }
}

/// A kubelet's yes, through whatever link there is.
pub(in crate::driver) fn registered() -> Event {
    Event::KubeletRegistered {
        kubelet: Some(KUBELET),
        through: None,
        told: None,
    }
}

/// A driver on a disk where everything succeeds: sockets and links get new numbers.
pub(in crate::driver) struct Tried {
    pub(in crate::driver) driver: Driver,
    pub(in crate::driver) done: Done,
    /// What each look at the volumes finds, and how many looks there were.
    pub(in crate::driver) volumes: VolumeUse,
    pub(in crate::driver) looks: usize,
}

/// What was done on that disk.
pub(in crate::driver) struct Done {
    /// One letter each: serve, publish, announce, delete the link, x for the socket.
    pub(in crate::driver) letters: String,
    next: u64,
}

impl Tried {
    pub(in crate::driver) fn new(driver: Driver) -> Tried {
        let done = Done {
            letters: String::new(),
            next: 100,
        };
        Tried {
            driver,
            done,
            volumes: VolumeUse::Free,
            looks: 0,
        }
    }

    pub(in crate::driver) fn apply(&mut self, event: Event, now: Moment) {
        if step(&mut self.driver, event, now, &mut self.done).ask_volumes {
            self.looks += 1;
            self.apply(Event::VolumesSeen(self.volumes.clone()), now);
        }
    }
}

impl Files for Done {
    fn remove(&mut self, _: &Driver, removal: Removal) {
        self.letters.push(letter_of_removal(&removal));
    }

    fn put(&mut self, _: &mut Driver, put: Put) -> Option<Event> {
        self.letters.push(letter_of_put(&put));
        self.next += 1;
        let identity = Identity::numbered(self.next);
        Some(match put {
            Put::Serve(_) => Event::SocketServed(identity),
            Put::Publish(..) | Put::Announce(..) => Event::LinkPublished(identity),
        })
    }
}

/// A driver in this phase, reached by the shortest way.
pub(in crate::driver) fn in_phase(phase: Phase) -> Driver {
    let mut tried = Tried::new(Driver::new(None, advertised()));
    let way = match phase {
        Phase::WaitingForDriver => vec![Event::DriverSilent("gone".to_owned())],
        Phase::WaitingForKubelet => vec![Event::DriverAnswered(answer())],
        Phase::Registered => vec![Event::DriverAnswered(answer()), registered()],
        Phase::Rejected => {
            vec![
                Event::DriverAnswered(answer()),
                Event::KubeletRejected(Some(KUBELET), "no".to_owned()),
            ]
        }
        Phase::Withdrawn => vec![Event::DriverAnswered(answer()), Event::WithdrawInUse],
        Phase::Conflict => return in_conflict(),
    };
    for event in way {
        tried.apply(event, NOW);
    }
    assert_eq!(tried.driver.phase(), phase);
    tried.driver
}

fn in_conflict() -> Driver {
    let mut driver = Driver::new(None, advertised());
    driver.apply(Event::DriverAnswered(answer()), NOW);
    driver.apply(Event::SocketServed(Identity::numbered(1)), NOW);
    driver.apply(
        Event::LinkBlocked(Obstacle::LiveOwner("pid 1".to_owned())),
        NOW,
    );
    assert_eq!(driver.phase(), Phase::Conflict);
    driver
}

/// The actions, by one letter each.
pub(super) fn letters(actions: &Actions) -> String {
    let removals = actions.remove.iter().map(letter_of_removal);
    removals
        .chain(actions.put.iter().map(letter_of_put))
        .collect()
}

fn letter_of_removal(removal: &Removal) -> char {
    match removal {
        Removal::Link(..) => 'd',
        Removal::Socket(..) => 'x',
    }
}

fn letter_of_put(put: &Put) -> char {
    match put {
        Put::Serve(_) => 's',
        Put::Publish(..) => 'p',
        Put::Announce(..) => 'a',
    }
}
