//! The disk of the world: carries out what the machine asks for, and checks that it may.

use super::{LinkFile, Missing, PLACES, World, Written};
use crate::disk::identity::Identity;
use crate::disk::obstacle::Obstacle;
use crate::driver::phase::Phase;
use crate::driver::tests::model::kubelet::{Change, Kubelet};
use crate::driver::{Afterwards, Driver, Event, Files, Put, Removal, step};

/// The files of the driver at one place.
struct ModelFiles<'a> {
    world: &'a mut World,
    place: usize,
    /// The first invariant that was broken.
    broken: Option<String>,
    /// The name is free for the driver at the other place.
    name_released: bool,
}

impl World {
    pub(super) fn apply_to_all(&mut self, event: &Event) -> Result<(), String> {
        (0..PLACES).try_for_each(|place| self.apply(place, event.clone()))
    }

    pub(super) fn apply(&mut self, place: usize, event: Event) -> Result<(), String> {
        let Some(us) = &self.us else {
            return Ok(());
        };
        let (mut driver, now) = (us[place].clone(), self.now);
        let mut files = ModelFiles {
            world: self,
            place,
            broken: None,
            name_released: false,
        };
        let Afterwards { save, ask_volumes } = step(&mut driver, event, now, &mut files);
        files.look_at(&driver);
        files.world.asked[place] |= ask_volumes;
        if save {
            files.world.write();
        }
        let (broken, name_released) = (files.broken, files.name_released);
        if let Some(broken) = broken {
            return Err(broken);
        }
        if name_released {
            self.offer_the_name(place)?;
        }
        Ok(())
    }

    fn write(&mut self) {
        let us = self.us.as_ref();
        self.state = us.map(|us| us.each_ref().map(|us| Written(us.record())));
    }

    pub(super) fn publish(&mut self) -> Result<Event, String> {
        self.must_listen()?;
        Ok(match self.disk.link {
            Some(LinkFile::Ours(link)) => Event::LinkPublished(Identity::numbered(link)),
            Some(LinkFile::Foreign { alive: true }) => link_blocked(),
            Some(LinkFile::Foreign { alive: false }) | None => self.make_link(),
        })
    }

    pub(super) fn announce(&mut self) -> Result<Event, String> {
        self.must_listen()?;
        if self.disk.has_foreign_owner() {
            return Ok(link_blocked());
        }
        // An operator who asks for it gets it.
        if !std::mem::take(&mut self.wished) {
            self.must_not_stand()?;
        }
        if self.missing == Some(Missing::AnnouncingAgain) {
            let link = self.disk.our_link().unwrap_or_default();
            return Ok(Event::LinkPublished(Identity::numbered(link)));
        }
        Ok(self.make_link())
    }

    pub(super) fn must_listen(&self) -> Result<(), String> {
        match self.disk.socket {
            Some((_, true)) => Ok(()),
            // Deleted under us, and we have not looked yet.
            None if self.news.socket => Ok(()),
            _ => Err("a link is published before the socket listens".to_owned()),
        }
    }

    /// A link is neither made anew nor taken away while a yes that we have heard stands for the
    /// driver as it is.
    pub(super) fn must_not_stand(&self) -> Result<(), String> {
        let Some(kubelet) = &self.kubelet else {
            return Ok(());
        };
        let known = self.holding().zip(self.holder().and_then(Driver::answer));
        let same_driver = |node: &str, at: usize| {
            known.is_none_or(|(place, answer)| place == at && answer.node_id == node)
        };
        match (&self.held, self.disk.our_link()) {
            (Some((pid, link, node, at)), Some(standing))
                if *pid == self.pid
                    && *link == standing
                    && same_driver(node, *at)
                    && kubelet.holds_driver() =>
            {
                Err("a registration that stands for the driver as it is was disturbed".to_owned())
            }
            _ => Ok(()),
        }
    }

    /// A driver that is in use is not taken off the node.
    fn must_not_be_in_use(&self) -> Result<(), String> {
        let kubelet = self.kubelet.as_ref();
        match self.is_used() && kubelet.is_some_and(Kubelet::holds_driver) {
            true => Err("a driver whose volumes are in use was taken off the node".to_owned()),
            false => Ok(()),
        }
    }

    pub(super) fn make_link(&mut self) -> Event {
        let link = self.new_number();
        self.put_link(LinkFile::Ours(link));
        Event::LinkPublished(Identity::numbered(link))
    }

    pub(super) fn put_link(&mut self, file: LinkFile) {
        let new = self.disk.link.replace(file).is_none();
        let change = if matches!(file, LinkFile::Ours(_)) {
            Change::Created
        } else {
            Change::Removed
        };
        if change == Change::Created || !new {
            self.kubelet_sees(change);
        }
    }

    pub(super) fn kubelet_sees(&mut self, change: Change) {
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.sees(change);
        }
    }
}

fn link_blocked() -> Event {
    Event::LinkBlocked(Obstacle::LiveOwner("pid 1".to_owned()))
}

impl ModelFiles<'_> {
    /// The world sees the driver as it is now.
    fn look_at(&mut self, driver: &Driver) {
        if let Some(us) = &mut self.world.us {
            us[self.place].clone_from(driver);
        }
    }

    fn check<T>(&mut self, outcome: Result<T, String>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(broken) => {
                self.broken.get_or_insert(broken);
                None
            }
        }
    }

    /// Listens, unless the driver of the other place has the name and keeps it.
    fn serve(&mut self, driver: &mut Driver) -> Event {
        let (world, other) = (&mut *self.world, 1 - self.place);
        if let Some(us) = &mut world.us
            && us[other].serves().is_some()
        {
            let can_take_over =
                driver.can_take_over() && world.missing != Some(Missing::HandingTheNameOver);
            match us[other].give_up_name(can_take_over) {
                Some(handover) => driver.inherit(handover, world.now),
                None => return Event::SocketBlocked(Obstacle::NameTaken("other".to_owned())),
            }
            self.look_at(driver);
            self.world.write();
        }
        let socket = self.world.new_number();
        self.world.disk.socket = Some((socket, true));
        Event::SocketServed(Identity::numbered(socket))
    }
}

impl Files for ModelFiles<'_> {
    fn remove(&mut self, driver: &Driver, removal: Removal) {
        self.look_at(driver);
        match removal {
            Removal::Link(_, identity) => {
                let ours = LinkFile::Ours(identity.number());
                if self.world.disk.link == Some(ours) {
                    // A withdrawal is meant to end the registration.
                    if driver.phase() != Phase::Withdrawn {
                        let may = self.world.must_not_stand();
                        self.check(may);
                    }
                    let may = self.world.must_not_be_in_use();
                    self.check(may);
                    self.world.disk.link = None;
                    self.world.kubelet_sees(Change::Removed);
                }
            }
            Removal::Socket(..) => {
                self.world.disk.socket = None;
                self.name_released = true;
            }
        }
    }

    fn put(&mut self, driver: &mut Driver, put: Put) -> Option<Event> {
        self.look_at(driver);
        match put {
            Put::Serve(_) if driver.serves().is_some() => None,
            Put::Serve(_) => Some(self.serve(driver)),
            Put::Publish(..) if driver.links().is_some() => None,
            Put::Publish(_) => {
                let outcome = self.world.publish();
                self.check(outcome)
            }
            Put::Announce(_) => {
                if driver.answer().is_none() {
                    let broken = "a driver that does not answer is announced";
                    return self.check(Err(broken.to_owned()));
                }
                let outcome = self.world.announce();
                self.check(outcome)
            }
        }
    }
}
