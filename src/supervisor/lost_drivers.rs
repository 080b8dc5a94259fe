//! Drivers that the configuration has lost between two runs of the daemon, and that are in use.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::renaming::free_id;
use super::saved_state::{Origin, SavedDriver};
use super::{RunnerKey, Supervisor};

/// A driver that the configuration does not have any more, and whose volumes are in use.
pub(super) struct LostDriver {
    pub(super) saved: SavedDriver,
    cause: String,
    kept_by: String,
}

impl Supervisor {
    /// The drivers that the configuration has lost since the last run, and whose volumes are in use. A driver
    /// whose id another driver has now has its name as its id.
    pub(super) async fn keep_lost(
        &self,
        lost: BTreeMap<String, SavedDriver>,
        saved: &BTreeMap<String, SavedDriver>,
    ) -> BTreeMap<String, LostDriver> {
        let is_published = |saved: &SavedDriver| saved.record.link.is_some();
        // A look takes time, and the daemon is to serve at once.
        let volumes = match lost.values().any(is_published) {
            true => self.volumes.read().await,
            false => Arc::default(),
        };
        let mut kept = BTreeMap::new();
        for (id, lost) in lost {
            let name = lost.record.name.clone().filter(|_| is_published(&lost));
            let kept_by = name.as_ref().and_then(|name| volumes.of(name).words());
            match kept_by {
                Some(kept_by) => {
                    let is_taken = |id: &str| {
                        self.settings.drivers.contains_key(id)
                            || saved.contains_key(id)
                            || kept.contains_key(id)
                    };
                    let new_id = free_id(&id, name.as_ref(), is_taken);
                    let cause = self.cause_of_loss_at_start(&id, &lost);
                    let lost = LostDriver {
                        saved: lost,
                        cause,
                        kept_by,
                    };
                    kept.insert(new_id, lost);
                }
                None => self.tell_removal_at_start(&id, &lost),
            }
        }
        kept
    }

    /// Goes on with a driver that the configuration has lost, with the settings of before as far as they are
    /// known.
    pub(super) fn add_lost(&mut self, id: &str, lost: &LostDriver) -> RunnerKey {
        let record = &lost.saved.record;
        let mut settings = self.settings.driver(id);
        if let Some(csi_socket) = &lost.saved.csi_socket {
            settings.csi_socket.clone_from(csi_socket);
            settings.endpoint.clone_from(csi_socket);
        }
        if let Some(registered) = &record.registration {
            settings
                .endpoint
                .clone_from(&registered.advertised.endpoint);
            let versions = &registered.advertised.versions;
            settings.supported_versions.clone_from(versions);
        }
        let origin = lost.saved.origin.unwrap_or(Origin::Table);
        let key = self.new_key();
        let is_discovered = origin == Origin::Discovery;
        let monitor = self.monitor_with(key, 0, &settings, is_discovered);
        self.add_with(key, id.into(), (settings, origin), monitor, Some(record));
        self.was_lost(key, lost.cause.clone(), lost.kept_by.clone());
        key
    }
}
