//! Files of ours that must go, and could not be removed at once.

use std::path::{Path, PathBuf};

use super::identity::Identity;
use super::layout::Layout;
use super::name::DriverName;
use super::replace;
use super::sweep::{Swept, Unclaimed, sweep_link};

/// How many shadowed files are remembered, the newest of them.
const MOST_SHADOWED: usize = 64;

/// Files that must go, each told apart from any later file of its name.
#[derive(Default)]
pub(crate) struct Removals {
    /// Files that the file system did not let us remove.
    leftovers: Vec<(PathBuf, Identity)>,
    /// Files that were not in their place when they had to go: a mount may cover them.
    shadowed_files: Vec<(PathBuf, Identity)>,
    /// Links that were left to other instances, until their driver proves to be ours.
    unowned_links: Vec<Unclaimed>,
}

impl Removals {
    /// Takes over what a sweep has left.
    pub(crate) fn add(&mut self, swept: Swept) {
        self.unowned_links = swept.unowned_links;
        self.leftovers.extend(swept.failed);
    }

    /// A file is still to be removed.
    pub(crate) fn has_leftovers(&self) -> bool {
        !self.leftovers.is_empty()
    }

    /// Removes a file of ours if it is still that file, now or as soon as the file system lets us.
    pub(crate) fn remove(&mut self, path: PathBuf, identity: &Identity) {
        match replace::remove(&path, identity) {
            Ok(true) => tracing::debug!(path = %path.display(), "removed"),
            Ok(false) => {
                tracing::debug!(path = %path.display(), "not removed: it is no longer ours");
                self.shadow(path, identity.clone());
            }
            Err(error) => {
                let left = (path, identity.clone());
                // A driver may have taken the file up and given it up again in the meantime.
                if !self.leftovers.contains(&left) {
                    tracing::warn!(%error, path = %left.0.display(), "cannot remove a file of ours; trying again");
                    self.leftovers.push(left);
                }
            }
        }
    }

    /// A file of ours is not in its place, and must go when it is there again.
    fn shadow(&mut self, path: PathBuf, identity: Identity) {
        if self.shadowed_files.len() == MOST_SHADOWED {
            self.shadowed_files.remove(0);
        }
        self.shadowed_files.push((path, identity));
    }

    /// Tries the leftovers again. A driver that came back under its old name uses its file again.
    pub(crate) fn retry(&mut self, is_in_use: impl Fn(&Path) -> bool) {
        self.leftovers.retain(|(path, identity)| {
            if is_in_use(path) {
                return false;
            }
            match replace::remove(path, identity) {
                Ok(true) => tracing::info!(path = %path.display(), "removed a leftover file"),
                Ok(false) => {}
                // The first failure was logged.
                Err(_) => return true,
            }
            false
        });
    }

    /// Removes shadowed files that are in their place again.
    pub(crate) fn remove_uncovered(&mut self, is_in_use: impl Fn(&Path) -> bool) {
        for (path, identity) in std::mem::take(&mut self.shadowed_files) {
            let is_there = Identity::of(&path).is_ok_and(|found| found == identity);
            if is_there && !is_in_use(&path) {
                self.remove(path, &identity);
            } else {
                self.shadowed_files.push((path, identity));
            }
        }
    }

    /// A driver of ours has this name, so that links which were left under it are ours, too. Two links
    /// must not lead to the socket when it listens: the link that the driver is to have stays.
    pub(crate) fn claim_links(&mut self, layout: &Layout, name: &DriverName) {
        let kept = layout.link(name);
        for left in self.unowned_links.extract_if(.., |left| left.name == *name) {
            if left.link != kept {
                sweep_link(layout, &left.link);
            }
        }
    }
}
