//! The files of a driver on disk, as its state machine asks for them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::runner::Runners;
use super::saved_state::Counts;
use super::{DriverId, Input, Names, RunnerKey, Work, WorkQueue, send};
use crate::disk::identity::Identity;
use crate::disk::layout::Layout;
use crate::disk::link::LinkPlace;
use crate::disk::name::DriverName;
use crate::disk::obstacle::Obstacle;
use crate::disk::reg_socket::SocketPlace;
use crate::disk::removals::Removals;
use crate::disk::socket::{ListenerProbe, probe};
use crate::disk::sweep::dead_socket;
use crate::driver::{Driver, Event, Files, Put, Removal, Seen};
use crate::kubelet::endpoint::Service;
use crate::kubelet::endpoint::session::Endpoint;
use crate::os::backoff::Backoff;
use crate::os::task::Task;
use crate::systemd::journal::message_id;

/// How soon a process that has our place and closed our connection is called again.
const CALL_AGAIN: Backoff = Backoff::new(Duration::from_millis(1), Duration::from_secs(1));

/// What runs behind the files of one driver.
#[derive(Default)]
pub(super) struct DriverFiles {
    pub(super) service: Option<Service>,
    /// Services whose socket is gone, while a call on them is in progress.
    pub(super) retired: Vec<Task>,
    /// Waits for the end of the process that is at our place.
    pub(super) owner_watch: Option<Task>,
    /// The link was taken away, and is not back yet.
    pub(super) link_missing: bool,
}

impl DriverFiles {
    /// Ends the service and removes its socket, where it was bound: as it was last seen, or as it was bound. False
    /// without a service.
    pub(super) fn remove_socket(
        &mut self,
        seen: Option<&Identity>,
        removals: &mut Removals,
    ) -> bool {
        let service = self.service.take();
        if let Some(service) = &service {
            let identity = seen.unwrap_or(service.socket());
            removals.remove(service.path().to_owned(), identity);
        }
        service.is_some()
    }
}

/// The disk, for one step of one driver, with the parts of the supervisor that a step may change.
pub(super) struct Disk<'a> {
    pub(super) key: RunnerKey,
    pub(super) id: &'a DriverId,
    pub(super) take_over: bool,
    pub(super) endpoint: &'a Arc<Endpoint>,
    pub(super) files: &'a mut DriverFiles,
    pub(super) counts: &'a mut Counts,
    pub(super) layout: &'a Layout,
    pub(super) names: &'a mut Names,
    pub(super) removals: &'a mut Removals,
    pub(super) queue: &'a mut WorkQueue,
    pub(super) sender: &'a mpsc::UnboundedSender<Input>,
}

impl Files for Disk<'_> {
    fn remove(&mut self, _: &Driver, removal: Removal) {
        match removal {
            Removal::Link(name, identity) => {
                self.removals.remove(self.layout.link(&name), &identity);
            }
            Removal::Socket(name, identity) => self.unserve(&name, identity),
        }
    }

    fn put(&mut self, driver: &mut Driver, put: Put) -> Option<Event> {
        match put {
            Put::Serve(_) if driver.serves().is_some() => None,
            Put::Serve(name) => Some(
                self.serve(&name)
                    .map_or_else(Event::SocketBlocked, Event::SocketServed),
            ),
            Put::Publish(..) if driver.links().is_some() => None,
            // What was last seen may be a second old where inotify cannot be had, and a kubelet never
            // looks again at a link that leads nowhere.
            Put::Publish(..) | Put::Announce(..) if self.lost_its_socket(driver) => {
                Some(Event::SocketSeen(Seen::NotOurs))
            }
            Put::Publish(name) => Some(self.publish(&name)),
            Put::Announce(name) => Some(self.announce(&name)),
        }
    }
}

impl Disk<'_> {
    fn serve(&mut self, name: &DriverName) -> Result<Identity, Obstacle> {
        self.layout.holds()?;
        if let Err((holder, id)) = self.names.check(name, self.key) {
            self.queue.push(*holder, Work::NameWanted(self.key));
            return Err(Obstacle::NameTaken(id.to_string()));
        }
        self.removals.claim_links(self.layout, name);
        let place = socket_place(self.layout, name);
        let ours = self.files.service.as_ref().map(Service::socket);
        match place.listen(ours, self.take_over) {
            Ok((listener, identity)) => {
                let endpoint = Arc::clone(self.endpoint);
                let new = Service::start(listener, identity.clone(), &place.path, endpoint);
                if let Some(old) = self.files.service.replace(new) {
                    self.removals.remove(old.path().to_owned(), old.socket());
                    self.files.retired.push(old.retire());
                }
                self.files.owner_watch = None;
                self.names.claim(name, self.key, self.id);
                Ok(identity)
            }
            // A driver that held the name still holds it.
            Err(obstacle) => {
                self.watch_owner(&place.path, &obstacle);
                Err(obstacle)
            }
        }
    }

    fn unserve(&mut self, name: &DriverName, identity: Option<Identity>) {
        self.files.retired.clear();
        let path = self.layout.socket(name);
        if !self.files.remove_socket(identity.as_ref(), self.removals)
            && let Some(identity) = dead_socket(&path)
        {
            self.removals.remove(path, &identity);
        }
        self.names.release(name, self.key);
        self.queue.push(self.key, Work::NameFree(name.clone()));
    }

    fn publish(&mut self, name: &DriverName) -> Event {
        let place = link_place(self.layout, name);
        let layout = self.layout.holds();
        match layout.and_then(|()| place.publish(self.take_over)) {
            Ok(published) => {
                self.files.owner_watch = None;
                let missing = std::mem::take(&mut self.files.link_missing);
                if published.made {
                    self.count_link(missing);
                }
                if published.made && missing {
                    let (id, link) = (self.id, place.path.display());
                    let message_id = message_id::LINK_REPAIRED;
                    tracing::warn!(message_id, driver = %id, %link, "{id}: the link was removed or changed, and is back");
                }
                Event::LinkPublished(published.identity)
            }
            Err(Obstacle::RemovedAtOnce) => {
                let missing = std::mem::replace(&mut self.files.link_missing, true);
                self.count_link(missing);
                Event::LinkBlocked(Obstacle::RemovedAtOnce)
            }
            Err(obstacle) => {
                self.watch_owner(&place.path, &obstacle);
                Event::LinkBlocked(obstacle)
            }
        }
    }

    fn announce(&mut self, name: &DriverName) -> Event {
        let place = link_place(self.layout, name);
        let layout = self.layout.holds();
        match layout.and_then(|()| place.announce(self.take_over)) {
            Ok(published) => {
                self.counts.announcements += 1;
                let id = self.id;
                tracing::info!(driver = %id, link = %place.path.display(), "{id}: announced again");
                Event::LinkPublished(published.identity)
            }
            Err(obstacle) => Event::LinkBlocked(obstacle),
        }
    }

    /// A link that was put back where it had been taken away is a repair, any other an announcement.
    fn count_link(&mut self, was_missing: bool) {
        if was_missing {
            self.counts.link_repairs += 1;
        } else {
            self.counts.announcements += 1;
        }
    }

    fn lost_its_socket(&self, driver: &Driver) -> bool {
        let socket = driver.serves();
        socket.is_some_and(|(name, identity)| !identity.is_at(&self.layout.socket(name)))
    }

    /// Holds a connection to the process at our place: its end tells that the process went.
    fn watch_owner(&mut self, path: &Path, obstacle: &Obstacle) {
        if !matches!(obstacle, Obstacle::LiveOwner(_)) {
            return;
        }
        let (sender, key, path) = (self.sender.clone(), self.key, path.to_owned());
        self.files.owner_watch = Some(Task::spawn(async move {
            owner_gone(&path).await;
            send(&sender, Input::OwnerGone(key));
        }));
    }
}

/// Resolves when no process listens at `path` any more.
async fn owner_gone(path: &Path) {
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

/// Tells the paths where a driver has its link or its socket.
pub(super) fn in_use(runners: &Runners, layout: &Layout) -> impl Fn(&Path) -> bool {
    |path| runners.values().any(|runner| runner.has_file(layout, path))
}

pub(super) fn link_place<'a>(layout: &'a Layout, name: &DriverName) -> LinkPlace<'a> {
    LinkPlace {
        path: layout.link(name),
        target: layout.target(name),
        socket: layout.socket(name),
        stage: layout.link_stage(),
    }
}

/// The link at its place, if it is the link that we would make.
pub(super) fn existing_link(place: &LinkPlace<'_>) -> Option<Identity> {
    let found = Identity::of(&place.path).ok();
    found.filter(|found| place.is_ours(found))
}

pub(super) fn socket_place<'a>(layout: &'a Layout, name: &DriverName) -> SocketPlace<'a> {
    SocketPlace {
        path: layout.socket(name),
        stage: layout.socket_stage(),
        borrowed: layout.one_directory(),
    }
}
