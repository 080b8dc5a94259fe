//! Carries out what a state machine says, at once, and brings the outcome back as an event.

use std::path::Path;

use tokio::io::AsyncReadExt;

use super::entry::{link_place, socket_place};
use super::{DriverId, Report, Supervisor, tell};
use crate::driver::{Effect, Event, Seen};
use crate::identity::Identity;
use crate::journal::message_id;
use crate::link::layout::Slot;
use crate::link::obstacle::Obstacle;
use crate::link::place::{self, Published};
use crate::name::DriverName;
use crate::registration::Service;
use crate::socket::{Knock, knock};
use crate::task::Task;

impl Supervisor {
    /// Applies `event`, and each outcome before the next effect: the machine decides with the
    /// newest facts.
    pub(super) fn perform_all(&mut self, id: &DriverId, event: Event) {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        for effect in entry.driver.apply(event, now) {
            if let Some(outcome) = self.perform(id, effect) {
                self.perform_all(id, outcome);
            }
        }
    }

    fn perform(&mut self, id: &DriverId, effect: Effect) -> Option<Event> {
        match effect {
            Effect::Serve(name) => Some(
                self.serve(id, &name)?
                    .map_or_else(Event::SocketBlocked, Event::SocketServed),
            ),
            Effect::Publish(name, slot) => self.publish(id, &name, slot),
            Effect::Announce(name, slot) => self.announce(id, &name, slot),
            Effect::Unlink(name, slot, identity) => {
                let path = self.layout.link(&name, slot);
                remove(&path, &identity);
                None
            }
            Effect::Unserve(name, identity) => {
                self.unserve(id, &name, &identity);
                None
            }
            Effect::Save => {
                self.unsaved = true;
                None
            }
        }
    }

    /// None when the driver serves already.
    fn serve(&mut self, id: &DriverId, name: &DriverName) -> Option<Result<Identity, Obstacle>> {
        if self.entries.get(id)?.driver.serves().is_some() {
            return None;
        }
        if let Some(sibling) = self.sibling(id, name) {
            return Some(Err(Obstacle::Sibling(sibling.to_string())));
        }
        let place = socket_place(&self.layout, name);
        let entry = self.entries.get_mut(id)?;
        Some(match place.listen(None, entry.settings.on_live_owner) {
            Ok((listener, identity)) => {
                let new = Service::start(listener, entry.desk.clone());
                let old = entry.service.replace(new);
                entry.retired.extend(old.map(Service::retire));
                entry.owner = None;
                self.names.insert(name.clone(), id.clone());
                Ok(identity)
            }
            Err(obstacle) => {
                let path = place.path;
                self.watch_owner(id, &path, &obstacle);
                Err(obstacle)
            }
        })
    }

    fn unserve(&mut self, id: &DriverId, name: &DriverName, identity: &Identity) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.service = None;
            entry.retired.clear();
        }
        remove(&self.layout.socket(name), identity);
        if self.names.get(name) == Some(id) {
            self.names.remove(name);
            self.poke_siblings(id, name);
        }
    }

    fn publish(&mut self, id: &DriverId, name: &DriverName, slot: Slot) -> Option<Event> {
        let entry = self.entries.get_mut(id)?;
        if entry.driver.links().is_some() {
            return None;
        }
        let place = link_place(&self.layout, name, slot);
        Some(match place.publish(entry.settings.on_live_owner) {
            Ok(Published { identity, made }) => {
                entry.owner = None;
                if std::mem::take(&mut entry.link_missing) && made {
                    entry.tally.link_repairs += 1;
                    let (message_id, link) = (message_id::LINK_REPAIRED, place.path.display());
                    tracing::warn!(message_id, driver = %id, %link, "{id}: the link was removed or changed, and is back");
                } else if made {
                    entry.tally.announcements += 1;
                }
                Event::LinkPublished(identity)
            }
            Err(obstacle) => {
                let path = place.path;
                self.watch_owner(id, &path, &obstacle);
                Event::LinkBlocked(obstacle)
            }
        })
    }

    fn announce(&mut self, id: &DriverId, name: &DriverName, slot: Slot) -> Option<Event> {
        let entry = self.entries.get_mut(id)?;
        let place = link_place(&self.layout, name, slot);
        Some(match place.announce(entry.settings.on_live_owner) {
            Ok(Published { identity, .. }) => {
                entry.tally.announcements += 1;
                tracing::info!(driver = %id, link = %place.path.display(), "{id}: announced again");
                Event::LinkPublished(identity)
            }
            Err(obstacle) => Event::LinkBlocked(obstacle),
        })
    }

    /// The driver that serves under this name and does not give it up.
    fn sibling(&mut self, id: &DriverId, name: &DriverName) -> Option<DriverId> {
        let holder = self.names.get(name).filter(|holder| *holder != id)?.clone();
        self.apply(&holder, Event::NameWanted);
        self.names.contains_key(name).then_some(holder)
    }

    /// A driver that no longer answers lets a sibling have its name.
    pub(super) fn offer_the_name(&mut self, id: &DriverId) {
        let name = self
            .entries
            .get(id)
            .and_then(|entry| entry.driver.serves())
            .map(|(name, _)| name.clone());
        if let Some(name) = name {
            self.poke_siblings(id, &name);
        }
    }

    fn poke_siblings(&mut self, id: &DriverId, name: &DriverName) {
        let blocked = |(other, entry): (&DriverId, &super::Entry)| {
            let waits =
                other != id && entry.driver.name() == Some(name) && entry.driver.serves().is_none();
            waits.then(|| other.clone())
        };
        let waiting: Vec<DriverId> = self.entries.iter().filter_map(blocked).collect();
        for other in waiting {
            self.apply(&other, Event::SocketSeen(Seen::NotOurs));
        }
    }

    /// Holds a connection to whoever is at our place: its end tells that they went.
    fn watch_owner(&mut self, id: &DriverId, path: &Path, obstacle: &Obstacle) {
        if !matches!(obstacle, Obstacle::LiveOwner(_)) {
            return;
        }
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let Knock::Alive(Some(stream)) = knock(path) else {
            return;
        };
        let Ok(mut stream) = tokio::net::UnixStream::from_std(stream) else {
            return;
        };
        let (reporter, id) = (self.reporter.clone(), id.clone());
        entry.owner = Some(Task::spawn(async move {
            let mut greeting = [0; 256];
            // A server may greet us first; only the end of the stream means anything.
            while matches!(stream.read(&mut greeting).await, Ok(read) if read > 0) {}
            tell(&reporter, Report::OwnerEnded(id));
        }));
    }
}

/// Removes a file of ours if it is still that file.
pub(super) fn remove(path: &Path, identity: &Identity) {
    match place::remove(path, identity) {
        Ok(true) => tracing::debug!(path = %path.display(), "removed"),
        Ok(false) => tracing::debug!(path = %path.display(), "not removed: it is no longer ours"),
        Err(error) => tracing::warn!(%error, path = %path.display(), "cannot remove what is ours"),
    }
}
