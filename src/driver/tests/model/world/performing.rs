//! Carries out what the machine says, on the disk of the world, and checks that it may.

use super::{LinkFile, Missing, PLACES, World, Written};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::obstacle::Obstacle;
use crate::driver::tests::model::kubelet::Change;
use crate::driver::{Driver, Effect, Event};

impl World {
    pub(super) fn apply_to_all(&mut self, event: &Event) -> Result<(), String> {
        (0..PLACES).try_for_each(|place| self.apply(place, event.clone()))
    }

    pub(super) fn apply(&mut self, place: usize, event: Event) -> Result<(), String> {
        let Some(us) = &mut self.us else {
            return Ok(());
        };
        for effect in us[place].apply(event, self.now) {
            if let Some(outcome) = self.perform(place, &effect)? {
                self.apply(place, outcome)?;
            }
        }
        if self.disk.our_links().len() > 1 {
            return Err("two links of ours stand at once".to_owned());
        }
        Ok(())
    }

    fn perform(&mut self, place: usize, effect: &Effect) -> Result<Option<Event>, String> {
        let Some(us) = self.us.as_ref().map(|us| &us[place]) else {
            return Ok(None);
        };
        match effect {
            Effect::Serve(_) if us.serves().is_some() => Ok(None),
            Effect::Serve(_) => Ok(Some(self.serve(place))),
            Effect::Publish(..) if us.links().is_some() => Ok(None),
            Effect::Publish(_, slot) => self.publish(*slot),
            Effect::Announce(_, slot) => {
                if us.answer().is_none() {
                    return Err("a driver that does not answer is announced".to_owned());
                }
                self.announce(*slot)
            }
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
                self.offer_the_name(place)?;
                Ok(None)
            }
            Effect::Save => {
                self.write();
                Ok(None)
            }
        }
    }

    fn write(&mut self) {
        let us = self.us.as_ref();
        self.state = us.map(|us| us.each_ref().map(|us| Written(us.record())));
    }

    /// Listens, unless the driver of the other place has the name and keeps it.
    fn serve(&mut self, place: usize) -> Event {
        if let Some(us) = &mut self.us
            && us[1 - place].serves().is_some()
        {
            let can_take_over =
                us[place].can_take_over() && self.missing != Some(Missing::HandingTheNameOver);
            match us[1 - place].give_up_name(can_take_over) {
                Some(estate) => us[place].inherit(estate, self.now),
                None => return Event::SocketBlocked(Obstacle::NameTaken("other".to_owned())),
            }
            self.write();
        }
        let socket = self.new_number();
        self.disk.socket = Some((socket, true));
        Event::SocketServed(Identity::numbered(socket))
    }

    pub(super) fn publish(&mut self, slot: LinkAlias) -> Result<Option<Event>, String> {
        self.must_listen()?;
        match self.disk.links.get(&slot.0) {
            Some(LinkFile::Ours(link)) => Ok(Some(Event::LinkPublished(Identity::numbered(*link)))),
            Some(LinkFile::Foreign { alive: true }) => Ok(Some(Event::LinkBlocked(
                Obstacle::LiveOwner("pid 1".to_owned()),
            ))),
            Some(LinkFile::Foreign { alive: false }) | None => Ok(Some(self.make_link(slot))),
        }
    }

    pub(super) fn announce(&mut self, slot: LinkAlias) -> Result<Option<Event>, String> {
        self.must_listen()?;
        if let Some(LinkFile::Foreign { alive: true }) = self.disk.links.get(&slot.0) {
            return Ok(Some(Event::LinkBlocked(Obstacle::LiveOwner(
                "pid 1".to_owned(),
            ))));
        }
        // Whoever asks for it by hand gets it.
        if !std::mem::take(&mut self.wished) {
            self.must_not_stand(slot)?;
        }
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
    pub(super) fn must_not_stand(&self, slot: LinkAlias) -> Result<(), String> {
        let Some(kubelet) = &self.kubelet else {
            return Ok(());
        };
        let known = self.holding().zip(self.holder().and_then(Driver::answer));
        let same_driver = |node: &str, at: usize| {
            known.is_none_or(|(place, answer)| place == at && answer.node_id == node)
        };
        match (&self.held, self.disk.our_links().get(&slot.0)) {
            (Some((pid, link, node, at)), Some(standing))
                if *pid == self.pid
                    && link == standing
                    && same_driver(node, *at)
                    && kubelet.holds(slot.0) =>
            {
                Err("a registration that stands for the driver as it is was disturbed".to_owned())
            }
            _ => Ok(()),
        }
    }

    pub(super) fn make_link(&mut self, slot: LinkAlias) -> Event {
        let link = self.new_number();
        self.put_link(slot.0, LinkFile::Ours(link));
        Event::LinkPublished(Identity::numbered(link))
    }

    pub(super) fn put_link(&mut self, slot: u32, file: LinkFile) {
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

    pub(super) fn kubelet_sees(&mut self, slot: u32, change: Change) {
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.sees(slot, change);
        }
    }
}
