//! The status board: writes the snapshot that clients read.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;

use super::DriverId;
use crate::api::snapshot::{Daemon, Snapshot, Snapshots};
use crate::grpc::proto::control::Driver;

/// The snapshot, and the drivers in it that may be out of date.
#[derive(Default)]
pub(super) struct StatusBoard {
    snapshot: watch::Sender<Arc<Snapshot>>,
    outdated: BTreeSet<DriverId>,
}

impl StatusBoard {
    pub(super) fn readers(&self) -> Snapshots {
        Snapshots::new(self.snapshot.subscribe())
    }

    /// The driver may have changed, or is new, or is removed.
    pub(super) fn touch(&mut self, id: &DriverId) {
        self.outdated.insert(id.clone());
    }

    /// Brings the snapshot up to date. Readers that wait for a change wake up only where it changed.
    pub(super) fn publish(
        &mut self,
        daemon: Daemon,
        driver: impl Fn(&DriverId) -> Option<Driver>,
        next_turn: Instant,
    ) {
        let outdated = std::mem::take(&mut self.outdated);
        self.snapshot.send_if_modified(|shared| {
            let snapshot = Arc::make_mut(shared);
            snapshot.next_turn = Some(next_turn);
            let mut changed = snapshot.daemon != daemon;
            snapshot.daemon = daemon;
            for id in outdated {
                let old = snapshot.drivers.get(&id);
                let new = driver(&id);
                if old.map(|old| &**old) == new.as_ref() {
                    continue;
                }
                changed = true;
                match new {
                    Some(new) => drop(snapshot.drivers.insert(id, Arc::new(new))),
                    None => drop(snapshot.drivers.remove(&id)),
                }
            }
            changed
        });
    }
}
