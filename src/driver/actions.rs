//! What a state machine asks for, and the one place that carries it out in the right order.

use super::{Driver, Event};
use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::os::clock::Moment;

/// What an event calls for: removals first, then at most one file, then the record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    pub(crate) remove: Vec<Removal>,
    pub(crate) put: Option<Put>,
    /// The driver's [`Record`](super::Record) has changed.
    pub(crate) save: bool,
    /// The driver is to leave, unless its volumes are in use: VolumesSeen.
    pub(crate) ask_volumes: bool,
}

/// What a step leaves to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Afterwards {
    /// The driver's record has to be saved.
    pub(crate) save: bool,
    /// The driver's volumes have to be looked at: the outcome is VolumesSeen.
    pub(crate) ask_volumes: bool,
}

/// A file that must go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    /// The link, if it is still this one.
    Link(DriverName, Identity),
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
    Publish(DriverName),
    /// Replace the link by a new one, so that the kubelet looks again: LinkPublished or LinkBlocked.
    Announce(DriverName),
}

/// Where the files of a driver are: the disk, or a test's model of it.
pub(crate) trait Files {
    fn remove(&mut self, driver: &Driver, removal: Removal);
    /// Returns the outcome, or none when the file exists already.
    fn put(&mut self, driver: &mut Driver, put: Put) -> Option<Event>;
}

/// Applies an event, carries out what it calls for, and applies each outcome before anything else:
/// the machine decides with the newest facts.
pub(crate) fn step(
    driver: &mut Driver,
    event: Event,
    now: Moment,
    files: &mut impl Files,
) -> Afterwards {
    let mut next = Some(event);
    let mut afterwards = Afterwards::default();
    while let Some(event) = next.take() {
        let Actions {
            remove,
            put,
            save,
            ask_volumes,
        } = driver.apply(event, now);
        for removal in remove {
            files.remove(driver, removal);
        }
        afterwards.save |= save;
        afterwards.ask_volumes |= ask_volumes;
        next = put.and_then(|put| files.put(driver, put));
    }
    afterwards
}
