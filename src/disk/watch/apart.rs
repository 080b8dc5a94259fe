//! Watches on directories that may hang: another thread sets them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::inotify::WatchDescriptor;
use tokio::sync::mpsc;

use super::inotify::Handle;
use super::{Armed, Watcher};
use crate::disk::directory::inode;
use crate::disk::reach::Reach;
use crate::os::task::Task;

/// What other threads do for the watcher.
pub(super) struct Apart {
    /// Directories whose watch is being set, and who sees to it.
    pending: BTreeMap<PathBuf, Task>,
    teller: mpsc::UnboundedSender<Set>,
    told: mpsc::UnboundedReceiver<Set>,
}

/// Another thread has set the watch on a directory that may hang.
pub(super) struct Set {
    directory: PathBuf,
    watch: nix::Result<WatchDescriptor>,
    inode: Option<(u64, u64)>,
}

impl Apart {
    pub(super) fn new() -> Apart {
        let (teller, told) = mpsc::unbounded_channel();
        Apart {
            pending: BTreeMap::new(),
            teller,
            told,
        }
    }

    /// The next watch that was set. Cancel safe.
    pub(super) async fn next(&mut self) -> Set {
        match self.told.recv().await {
            Some(set) => set,
            None => pending().await,
        }
    }

    /// Whoever waits for what was mounted before may wait for ever, and what it says then would be
    /// about a directory that is no longer there.
    pub(super) fn forget(&mut self) {
        self.pending.clear();
        while self.told.try_recv().is_ok() {}
    }

    fn set(&mut self, directory: &Path, handle: Handle, reach: &Reach) {
        if self.pending.contains_key(directory) {
            return;
        }
        let (teller, reach) = (self.teller.clone(), reach.clone());
        let place = directory.to_owned();
        let setting = Task::spawn(async move {
            let path = place.clone();
            let set = move || Set {
                watch: handle.watch(&path),
                inode: inode(&path),
                directory: path,
            };
            // Nobody waits for it, so that it may take its time.
            if let Ok(set) = reach.look(&place, Duration::MAX, set).await
                && teller.send(set).is_err()
            {
                tracing::debug!("nobody watches any more");
            }
        });
        self.pending.insert(directory.to_owned(), setting);
    }
}

impl<S: Clone + Ord> Watcher<S> {
    /// Lets another thread set the watch. What it says comes with [`Watcher::changed`].
    pub(super) fn arm_apart(&mut self, directory: &Path) {
        let Some(inotify) = &self.inotify else {
            return self.note_armed(directory, Armed::Refused);
        };
        let known = self.directories.entry(directory.to_owned());
        known.or_insert(Armed::Unseen);
        self.apart.set(directory, inotify.handle(), &self.reach);
    }

    /// Who has to look again: what happened before the watch was set went unseen.
    pub(super) fn note_set(&mut self, set: Set) -> BTreeSet<S> {
        self.apart.pending.remove(&set.directory);
        let Some(inotify) = &mut self.inotify else {
            return BTreeSet::new();
        };
        let noted = inotify.note(&set.directory, set.watch);
        let Some(before) = self.directories.get(&set.directory).copied() else {
            inotify.unwatch(&set.directory);
            return BTreeSet::new();
        };
        let armed = Armed::of(noted, || set.inode);
        self.note_armed(&set.directory, armed);
        let followers = self.subjects.get(&set.directory);
        match followers {
            Some(followers) if armed != before => followers.clone(),
            Some(_) | None => BTreeSet::new(),
        }
    }
}
