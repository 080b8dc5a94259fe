//! What a state machine asks for, and the one place that carries it out in the right order.

use super::{Driver, Event};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::os::clock::Moment;

/// What an event calls for: removals first, then at most one file, then the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    pub(crate) remove: Vec<Removal>,
    pub(crate) put: Option<Put>,
    /// The driver's [`Record`](super::Record) has changed.
    pub(crate) save: bool,
}

/// A file that must go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The link, if it is still this one.
    Link(DriverName, LinkAlias, Identity),
    /// The registration socket, with the service behind it. Without an identity: a dead socket that
    /// an earlier run left at its path.
    Socket(DriverName, Option<Identity>),
}

/// A file that must exist. The outcome is the next event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Listen on the registration socket: SocketServed or SocketBlocked.
    Serve(DriverName),
    /// Create the link unless it exists: LinkPublished or LinkBlocked.
    Publish(DriverName, LinkAlias),
    /// Replace the link by a new one, so that the kubelet looks again: LinkPublished or LinkBlocked.
    Announce(DriverName, LinkAlias),
}

/// Where the files of a driver are: the disk, or a test's model of it.
pub(crate) trait Files {
    fn remove(&mut self, driver: &Driver, removal: Removal);
    /// Returns the outcome, or none when the file exists already.
    fn put(&mut self, driver: &mut Driver, put: Put) -> Option<Event>;
}

/// Applies an event, carries out what it calls for, and applies each outcome before anything else:
/// the machine decides with the newest facts. Tells whether the driver's record has to be saved.
pub(crate) fn step(driver: &mut Driver, event: Event, now: Moment, files: &mut impl Files) -> bool {
    let mut next = Some(event);
    let mut is_unsaved = false;
    while let Some(event) = next.take() {
        let Actions { remove, put, save } = driver.apply(event, now);
        for removal in remove {
            files.remove(driver, removal);
        }
        is_unsaved |= save;
        next = put.and_then(|put| files.put(driver, put));
    }
    is_unsaved
}
