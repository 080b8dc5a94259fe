//! Carries out what a state machine says, at once, and brings the outcome back as an event.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::removals::remember;
use super::runner::{link_place, socket_place};
use super::{DriverId, Leased, Report, Supervisor, tell};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::link::Published;
use crate::disk::name::DriverName;
use crate::disk::obstacle::Obstacle;
use crate::disk::socket::{ListenerProbe, probe};
use crate::disk::sweep::dead_socket;
use crate::driver::{Actions, Event, Put, Removal, Seen};
use crate::kubelet::endpoint::Service;
use crate::os::backoff::Backoff;
use crate::os::task::Task;
use crate::systemd::journal::message_id;

/// How soon an owner that closed our connection is called again.
const CALL_AGAIN: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_secs(1));

impl Supervisor {
    /// Applies `event`, and each outcome before the next effect: the machine decides with the
    /// newest facts.
    pub(super) fn perform_all(&mut self, id: &DriverId, event: Event) {
        let now = self.now();
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let Actions { remove, put, save } = entry.driver.apply(event, now);
        for removal in remove {
            match removal {
                Removal::Link(name, slot, identity) => {
                    let path = self.layout.link(&name, slot);
                    self.remove(path, &identity);
                }
                Removal::Socket(name, identity) => self.unserve(id, &name, identity),
            }
        }
        self.unsaved |= save;
        if let Some(outcome) = put.and_then(|put| self.put(id, put)) {
            self.perform_all(id, outcome);
        }
    }

    fn put(&mut self, id: &DriverId, put: Put) -> Option<Event> {
        match put {
            Put::Serve(name) => Some(
                self.serve(id, &name)?
                    .map_or_else(Event::SocketBlocked, Event::SocketServed),
            ),
            Put::Publish(name, slot) => self.publish(id, &name, slot),
            Put::Announce(name, slot) => self.announce(id, &name, slot),
        }
    }

    /// None when the driver serves already.
    fn serve(&mut self, id: &DriverId, name: &DriverName) -> Option<Result<Identity, Obstacle>> {
        if self.entries.get(id)?.driver.serves().is_some() {
            return None;
        }
        if let Some(sibling) = self.sibling(id, name) {
            return Some(Err(Obstacle::NameTaken(sibling.to_string())));
        }
        let slot = self.entries.get(id)?.driver.slot();
        self.claim(name, slot);
        self.recall_unseen_kubelet(name, slot);
        let place = socket_place(&self.layout, name);
        let entry = self.entries.get_mut(id)?;
        let ours = entry.service.as_ref().map(Service::socket);
        let take_over = entry.settings.on_live_owner.takes_over();
        Some(match place.listen(ours, take_over) {
            Ok((listener, identity)) => {
                let new = Service::start(listener, identity.clone(), Arc::clone(&entry.endpoint));
                let old = entry.service.replace(new);
                if let Some(old) = &old {
                    remember(&mut self.hidden, place.path, old.socket().clone());
                }
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

    fn unserve(&mut self, id: &DriverId, name: &DriverName, identity: Option<Identity>) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.service = None;
            entry.retired.clear();
        }
        let path = self.layout.socket(name);
        if let Some(identity) = identity.or_else(|| dead_socket(&path)) {
            self.remove(path, &identity);
        }
        if self.names.get(name) == Some(id) {
            self.names.remove(name);
            self.poke_siblings(id, name);
        }
    }

    fn publish(&mut self, id: &DriverId, name: &DriverName, slot: LinkAlias) -> Option<Event> {
        if self.entries.get(id)?.driver.links().is_some() {
            return None;
        }
        if self.lost_its_socket(id) {
            return Some(Event::SocketSeen(Seen::NotOurs));
        }
        let hard = self.links_are_sockets();
        let entry = self.entries.get_mut(id)?;
        let place = link_place(&self.layout, name, slot, hard);
        let take_over = entry.settings.on_live_owner.takes_over();
        Some(match place.publish(take_over) {
            Ok(published) => {
                if place.hard && published.made && published.is_symbolic() {
                    self.kubelets.cannot_have_sockets();
                }
                let Published { identity, made } = published;
                entry.owner = None;
                let missing = std::mem::take(&mut entry.link_missing);
                if made {
                    entry.tally.link_made(missing);
                }
                if made && missing {
                    let (message_id, link) = (message_id::LINK_REPAIRED, place.path.display());
                    tracing::warn!(message_id, driver = %id, %link, "{id}: the link was removed or changed, and is back");
                }
                Event::LinkPublished(identity)
            }
            Err(Obstacle::RemovedAtOnce) => {
                let missing = std::mem::replace(&mut entry.link_missing, true);
                entry.tally.link_made(missing);
                Event::LinkBlocked(Obstacle::RemovedAtOnce)
            }
            Err(obstacle) => {
                let path = place.path;
                self.watch_owner(id, &path, &obstacle);
                Event::LinkBlocked(obstacle)
            }
        })
    }

    fn announce(&mut self, id: &DriverId, name: &DriverName, slot: LinkAlias) -> Option<Event> {
        if self.lost_its_socket(id) {
            return Some(Event::SocketSeen(Seen::NotOurs));
        }
        let hard = self.links_are_sockets();
        let entry = self.entries.get_mut(id)?;
        let place = link_place(&self.layout, name, slot, hard);
        let take_over = entry.settings.on_live_owner.takes_over();
        Some(match place.announce(take_over) {
            Ok(published) => {
                if place.hard && published.is_symbolic() {
                    self.kubelets.cannot_have_sockets();
                }
                let identity = published.identity;
                entry.tally.announcements += 1;
                tracing::info!(driver = %id, link = %place.path.display(), "{id}: announced again");
                Event::LinkPublished(identity)
            }
            Err(obstacle) => Event::LinkBlocked(obstacle),
        })
    }

    /// Socket and link are two names of one file that an earlier run has left: it knew that the
    /// kubelet cannot be seen from here.
    pub(super) fn recall_unseen_kubelet(&mut self, name: &DriverName, slot: LinkAlias) {
        let link = Identity::of(&self.layout.link(name, slot));
        let is_pair = link.is_ok_and(|link| link.is_at(&self.layout.socket(name)));
        if is_pair && self.layout.one_directory() {
            self.kubelets.went_unseen();
        }
    }

    /// The socket that should stand is not there. What was last seen may be a second old where
    /// inotify is not to be had, and a kubelet never looks again at a link that leads nowhere.
    fn lost_its_socket(&self, id: &DriverId) -> bool {
        let socket = self.entries.get(id).and_then(|entry| entry.driver.serves());
        socket.is_some_and(|(name, identity)| !identity.is_at(&self.layout.socket(name)))
    }

    /// The driver that serves under this name and does not give it up. One that is silent leaves the
    /// name to a sibling, and its link and registration to one that answers.
    fn sibling(&mut self, id: &DriverId, name: &DriverName) -> Option<DriverId> {
        let holder = self.names.get(name).filter(|holder| *holder != id)?.clone();
        // One that has another name by now has nothing to give.
        if self
            .entries
            .get(&holder)
            .and_then(|held| held.driver.name())
            != Some(name)
        {
            self.names.remove(name);
            return None;
        }
        let can_take_over = self.entries.get(id)?.driver.can_take_over();
        let held = self.entries.get_mut(&holder)?;
        let Some(estate) = held.driver.give_up_name(can_take_over) else {
            return Some(holder);
        };
        // The socket is served until the heir's is renamed over it: the link leads there.
        let service = held.service.take();
        self.names.remove(name);
        let now = self.now();
        let heir = self.entries.get_mut(id)?;
        heir.driver.inherit(estate, now);
        heir.service = heir.service.take().or(service);
        tracing::info!(driver = %id, "{id}: takes over the name {name} from {holder}, which does not answer");
        self.unsaved = true;
        self.refresh(&holder);
        None
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
        let blocked = |(other, entry): (&DriverId, &super::Runner)| {
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
        let (reporter, path) = (self.reporter.clone(), path.to_owned());
        entry.owner = Some(Leased::start(id, |lease| {
            Task::spawn(async move {
                owner_ended(&path).await;
                tell(&reporter, Report::OwnerEnded(lease));
            })
        }));
    }
}

/// Resolves when nobody listens at `path` any more.
async fn owner_ended(path: &Path) {
    let mut calls = 0;
    while let ListenerProbe::Alive(stream) = probe(path) {
        if let Some(Ok(mut stream)) = stream.map(UnixStream::from_std) {
            let mut greeting = [0; 256];
            // A server may greet us first; only the end of the stream means anything.
            while matches!(stream.read(&mut greeting).await, Ok(read) if read > 0) {}
        }
        // A process that ends may close our connection a moment before its socket. A server that
        // hangs up on silent callers is called more and more slowly.
        sleep(CALL_AGAIN.delay(calls)).await;
        calls += 1;
    }
}
