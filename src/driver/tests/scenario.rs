//! Drivers in each phase, to start a test from.

use std::path::PathBuf;

use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::disk::obstacle::Obstacle;
use crate::driver::answer::Answer;
use crate::driver::phase::Phase;
use crate::driver::{AdvertisedInfo, Driver, Effect, Event};
use crate::os::clock::Moment;
use crate::os::process::Process;

pub(super) const KUBELET: Process = Process {
    pid: 7,
    started: 70,
};
pub(super) const STRANGER: Process = Process {
    pid: 8,
    started: 80,
};
pub(super) const NOW: Moment = Moment(1_000_000);

pub(super) fn terms() -> AdvertisedInfo {
    AdvertisedInfo {
        endpoint: PathBuf::from("/e"),
        versions: vec!["1.0.0".to_owned()],
    }
}

pub(super) fn name(name: &str) -> DriverName {
    DriverName::parse(name).unwrap()
}

pub(super) fn answer() -> Answer {
    Answer {
        name: name("a.b"),
        vendor_version: "1".to_owned(),
        node_id: "n".to_owned(),
        max_volumes: 0,
        topology: [("zone".to_owned(), "z".to_owned())].into(),
    }
}

/// A kubelet's yes, through whatever link there is.
pub(super) fn registered() -> Event {
    Event::KubeletRegistered {
        kubelet: Some(KUBELET),
        through: None,
        told: None,
    }
}

/// What a driver was asked to do, with every effect succeeding: sockets and links get new numbers.
pub(super) struct Tried {
    pub(super) driver: Driver,
    pub(super) effects: Vec<Effect>,
    next: u64,
}

impl Tried {
    pub(super) fn new(driver: Driver) -> Tried {
        Tried {
            driver,
            effects: Vec::new(),
            next: 100,
        }
    }

    pub(super) fn apply(&mut self, event: Event, now: Moment) {
        for effect in self.driver.apply(event, now) {
            self.effects.push(effect.clone());
            self.next += 1;
            let identity = Identity::numbered(self.next);
            let outcome = match effect {
                Effect::Serve(_) => Event::SocketServed(identity),
                Effect::Publish(..) | Effect::Announce(..) => Event::LinkPublished(identity),
                Effect::Unserve(..) | Effect::Unlink(..) | Effect::Save => continue,
            };
            self.apply(outcome, now);
        }
    }
}

/// A driver in this phase, reached by the shortest way.
pub(super) fn in_phase(phase: Phase) -> Driver {
    let mut tried = Tried::new(Driver::new(None, terms()));
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
        Phase::Withdrawn => vec![Event::DriverAnswered(answer()), Event::Withdraw],
        Phase::Conflict => return in_conflict(),
    };
    for event in way {
        tried.apply(event, NOW);
    }
    assert_eq!(tried.driver.phase(), phase);
    tried.driver
}

fn in_conflict() -> Driver {
    let mut driver = Driver::new(None, terms());
    driver.apply(Event::DriverAnswered(answer()), NOW);
    driver.apply(Event::SocketServed(Identity::numbered(1)), NOW);
    driver.apply(
        Event::LinkBlocked(Obstacle::LiveOwner("pid 1".to_owned())),
        NOW,
    );
    assert_eq!(driver.phase(), Phase::Conflict);
    driver
}

/// The effects, by one letter each: Serve, Unserve (x), Publish, Announce, Unlink (d).
pub(super) fn letters(effects: &[Effect]) -> String {
    let letter = |effect: &Effect| match effect {
        Effect::Serve(_) => Some('s'),
        Effect::Unserve(..) => Some('x'),
        Effect::Publish(..) => Some('p'),
        Effect::Announce(..) => Some('a'),
        Effect::Unlink(..) => Some('d'),
        Effect::Save => None,
    };
    effects.iter().filter_map(letter).collect()
}
