//! What is ours, no longer wanted, and could not be removed: it is tried again until it is gone.

use std::path::{Path, PathBuf};

use super::Supervisor;
use crate::disk::identity::Identity;
use crate::disk::replace;

/// Files that are to go, each told apart from any later one of its name.
pub(super) type Removals = Vec<(PathBuf, Identity)>;

/// How many files that were not in their place are remembered, the newest of them.
const MOST_HIDDEN: usize = 64;

impl Supervisor {
    /// Removes a file of ours if it is still that file, now or as soon as the file system lets us.
    pub(super) fn remove(&mut self, path: PathBuf, identity: &Identity) {
        match replace::remove(&path, identity) {
            Ok(true) => tracing::debug!(path = %path.display(), "removed"),
            Ok(false) => {
                tracing::debug!(path = %path.display(), "not removed: it is no longer ours");
                remember(&mut self.hidden, path, identity.clone());
            }
            Err(error) => {
                let left = (path, identity.clone());
                // One that is known may have been taken up and given up again in the meantime.
                if !self.leftovers.contains(&left) {
                    tracing::warn!(%error, path = %left.0.display(), "cannot remove what is ours; trying again");
                    self.leftovers.push(left);
                }
                self.hurry_resync();
            }
        }
    }

    pub(super) fn remove_leftovers(&mut self) {
        for (path, identity) in std::mem::take(&mut self.leftovers) {
            if self.stands(&path) {
                continue;
            }
            match replace::remove(&path, &identity) {
                Ok(true) => tracing::info!(path = %path.display(), "removed what was left over"),
                Ok(false) => {}
                // It was told when it first failed.
                Err(_) => self.leftovers.push((path, identity)),
            }
        }
    }

    /// Removes what was hidden when it was to go, and has come to light again.
    pub(super) fn remove_hidden(&mut self) {
        for (path, identity) in std::mem::take(&mut self.hidden) {
            let is_there = Identity::of(&path).is_ok_and(|found| found == identity);
            if is_there && !self.stands(&path) {
                self.remove(path, &identity);
            } else {
                self.hidden.push((path, identity));
            }
        }
    }

    /// A driver that came back under its old name has taken the file up again.
    fn stands(&self, path: &Path) -> bool {
        self.entries.values().any(|entry| {
            let link = entry.driver.links();
            let socket = entry.driver.serves();
            link.is_some_and(|(name, slot, _)| self.layout.link(name, slot) == path)
                || socket.is_some_and(|(name, _)| self.layout.socket(name) == path)
        })
    }
}

/// A file of ours is not in its place: something may be mounted over it.
pub(super) fn remember(hidden: &mut Removals, path: PathBuf, identity: Identity) {
    if hidden.len() == MOST_HIDDEN {
        hidden.remove(0);
    }
    hidden.push((path, identity));
}
