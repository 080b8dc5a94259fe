//! What we do of ourselves: start, end, look, and be woken.

use std::time::Duration;

use super::{Missing, News, PLACES, World, Written, as_node, process};
use crate::disk::identity::Identity;
use crate::driver::tests::model::kubelet::Change;
use crate::driver::tests::scenario::advertised;
use crate::driver::{AdvertisedInfo, Calling, Driver, Event, Seen};

impl World {
    pub(super) fn we_end(&mut self) {
        self.us = None;
        self.asked = [false; PLACES];
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

    /// How long a driver may be away.
    fn patience(&self) -> Option<Duration> {
        self.used.map(|_| Duration::ZERO)
    }

    pub(super) fn we_start(&mut self) -> Result<(), String> {
        let mut us = [0, 1].map(|place| Driver::new(self.patience(), terms_at(place)));
        if self.missing == Some(Missing::TheStateFile) {
            self.state = None;
        }
        let mut is_kept = false;
        for (us, Written(record)) in us.iter_mut().zip(self.state.iter().flatten()) {
            let named = record.name.is_some();
            let link = self.disk.our_link().filter(|_| named);
            let link = link.map(Identity::numbered);
            let runs = |kubelet| self.kubelet.is_some() && kubelet == process(self.pid);
            us.restore(record, link, runs, self.now);
            is_kept |= named;
        }
        if !is_kept {
            self.sweep()?;
        }
        self.us = Some(us);
        self.wished = false;
        self.news = News {
            contact: [true, self.csi.moved],
            ..News::default()
        };
        if !self.csi.moved {
            self.hear(1)?;
        }
        self.tick()?;
        self.look_at_link()
    }

    /// The id of the driver that runs is another one from now on, for the same socket: it is asked
    /// anew, and everything else goes on.
    pub(super) fn rename_the_id(&mut self) {
        let (place, now, patience) = (self.csi.place, self.now, self.patience());
        if let Some(us) = &mut self.us {
            us[place].reconfigure(patience, terms_at(place), false, now);
        }
        self.news.contact[place] = true;
    }

    /// A driver was asked. One that does not answer any more leaves its name to one that waits for it.
    pub(super) fn hear(&mut self, place: usize) -> Result<(), String> {
        if self.csi.up && self.csi.place == place {
            return self.apply(place, Event::DriverAnswered(as_node(self.csi.node)));
        }
        self.apply(place, Event::DriverSilent("gone".to_owned()))?;
        self.offer_the_name(place)
    }

    pub(super) fn offer_the_name(&mut self, place: usize) -> Result<(), String> {
        let other = 1 - place;
        let waits = self
            .us
            .as_ref()
            .is_some_and(|us| us[other].name().is_some() && us[other].serves().is_none());
        if waits {
            self.apply(other, Event::SocketSeen(Seen::NotOurs))?;
        }
        Ok(())
    }

    /// A link of ours that leads to a socket nobody serves, and that no driver is known to have.
    fn sweep(&mut self) -> Result<(), String> {
        if self.disk.our_link().is_some() {
            self.must_not_stand()?;
            self.disk.link = None;
            self.kubelet_sees(Change::Removed);
        }
        Ok(())
    }

    pub(super) fn look_at_link(&mut self) -> Result<(), String> {
        self.news.link = false;
        if self.missing == Some(Missing::LookingAtTheLink) {
            return Ok(());
        }
        for place in 0..PLACES {
            let Some(us) = self.us.as_ref().map(|us| &us[place]) else {
                return Ok(());
            };
            if us.name().is_none() {
                continue;
            }
            let seen = match self.disk.our_link() {
                Some(link) => Seen::Ours(Identity::numbered(link)),
                None => Seen::NotOurs,
            };
            self.apply(place, Event::LinkSeen(seen))?;
        }
        Ok(())
    }

    pub(super) fn look_at_socket(&mut self) -> Result<(), String> {
        self.news.socket = false;
        if self.missing == Some(Missing::LookingAtTheSocket) {
            return Ok(());
        }
        for place in 0..PLACES {
            let Some(us) = self.us.as_ref().map(|us| &us[place]) else {
                return Ok(());
            };
            if us.name().is_none() {
                continue;
            }
            let ours = us.serves().map(|(_, identity)| identity.number());
            let found = self.disk.socket.map(|(socket, _)| socket);
            let seen = match found.filter(|found| ours == Some(*found)) {
                Some(found) => Seen::Ours(Identity::numbered(found)),
                None => Seen::NotOurs,
            };
            self.apply(place, Event::SocketSeen(seen))?;
        }
        Ok(())
    }

    pub(super) fn tick(&mut self) -> Result<(), String> {
        let kubelet_there = self.kubelet.is_some();
        let calling = self
            .kubelet
            .as_ref()
            .and_then(|kubelet| kubelet.call)
            .filter(|call| call.connected)
            .map(|call| call.place);
        for place in 0..PLACES {
            let calling = if calling == Some(place) {
                Calling::This
            } else {
                Calling::Nobody
            };
            self.apply(
                place,
                Event::Ticked {
                    kubelet_there,
                    calling,
                },
            )?;
        }
        Ok(())
    }
}

/// The socket's path is the place.
fn terms_at(place: usize) -> AdvertisedInfo {
    AdvertisedInfo {
        endpoint: place.to_string().into(),
        ..advertised()
    }
}
