//! What we do of ourselves: start, end, look, and be woken.

use super::{Missing, News, World, Written, process};
use crate::driver::tests::model::kubelet::Change;
use crate::driver::tests::scenario::terms;
use crate::driver::{Calling, Driver, Event, Seen};
use crate::identity::Identity;
use crate::link::layout::Slot;

impl World {
    pub(super) fn we_end(&mut self) {
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

    pub(super) fn we_start(&mut self) -> Result<(), String> {
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

    pub(super) fn look_at_link(&mut self) -> Result<(), String> {
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

    pub(super) fn look_at_socket(&mut self) -> Result<(), String> {
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

    pub(super) fn tick(&mut self) -> Result<(), String> {
        let kubelet_there = self.kubelet.is_some();
        let calling = self
            .kubelet
            .as_ref()
            .and_then(|kubelet| kubelet.call)
            .is_some_and(|call| call.connected);
        let calling = if calling {
            Calling::This
        } else {
            Calling::Nobody
        };
        self.apply(Event::Ticked {
            kubelet_there,
            calling,
        })
    }
}
