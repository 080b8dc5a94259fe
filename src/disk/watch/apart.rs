//! Watches on directories that may hang, which other threads set.

use std::collections::BTreeSet;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::inotify::WatchDescriptor;
use tokio::task::JoinSet;

use super::inotify::Handle;
use super::{Armed, Watcher};
use crate::disk::directory::inode;
use crate::disk::reach::{Hung, Reach};

/// The watches that other threads are setting.
#[derive(Default)]
pub(super) struct Apart {
    pending: BTreeSet<PathBuf>,
    tasks: JoinSet<Result<Set, Hung>>,
}

/// Another thread has set the watch on a directory that may hang.
pub(super) struct Set {
    directory: PathBuf,
    watch: nix::Result<WatchDescriptor>,
    inode: Option<(u64, u64)>,
}

impl Apart {
    /// The next watch that was set. Cancel safe.
    pub(super) async fn next(&mut self) -> Set {
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Ok(set)) = ended {
                return set;
            }
        }
        pending().await
    }

    /// Drops all tasks after a mount or an unmount: a task may wait for the earlier mount for ever, and its
    /// result would be about a directory that is hidden now.
    pub(super) fn forget(&mut self) {
        *self = Apart::default();
    }

    fn set(&mut self, directory: &Path, handle: Handle, reach: &Reach) {
        if !self.pending.insert(directory.to_owned()) {
            return;
        }
        let (path, directory, reach) = (directory.to_owned(), directory.to_owned(), reach.clone());
        let set = move || Set {
            watch: handle.watch(&directory),
            inode: inode(&directory),
            directory,
        };
        // No caller waits, so there is no deadline.
        self.tasks
            .spawn(async move { reach.look(&path, Duration::MAX, set).await });
    }
}

impl<S: Clone + Ord> Watcher<S> {
    /// Lets another thread set the watch. [`Watcher::changed`] takes the result.
    pub(super) fn arm_apart(&mut self, directory: &Path) {
        let Some(inotify) = &self.inotify else {
            return self.note_armed(directory, Armed::Refused);
        };
        let known = self.directories.entry(directory.to_owned());
        known.or_insert(Armed::Unseen);
        self.apart
            .set(directory, inotify.handle().clone(), &self.reach);
    }

    /// The subjects that have to look again, because no event reports changes before the watch was set.
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
        let told = followers.filter(|_| armed != before);
        told.cloned().unwrap_or_default()
    }
}
