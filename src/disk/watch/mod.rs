//! Watches paths that may not exist yet, with one inotify instance for the whole process.
//!
//! A subject follows a path. The watcher watches each directory on the way to the path, so that the path
//! may appear, disappear, be replaced or move at any level. An event only means "look again": subjects
//! learn that a file on their path changed, and not how. A subject may also follow a directory with all
//! files in it. A mount over one of the directories counts as its replacement.

mod apart;
mod inotify;
mod mounts;
mod throttle;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use tokio::time::Instant;

use self::apart::Apart;
use self::inotify::Inotify;
use self::mounts::Mounts;
use crate::disk::directory::{self, LET_US_READ, inode};
use crate::disk::reach::Reach;

/// Events that are lost within this time after others belong to the same storm.
const SAME_STORM: Duration = Duration::from_secs(60);

/// Watches the paths that subjects of type `S` follow.
pub(crate) struct Watcher<S> {
    /// None where the kernel refuses an instance.
    inotify: Option<Inotify>,
    /// None where the table of mounts cannot be read.
    mounts: Option<Mounts>,
    /// The followers of each path, and of each directory on the way to a path.
    subjects: HashMap<PathBuf, BTreeSet<S>>,
    /// The followers of all files in a directory.
    families: HashMap<PathBuf, BTreeSet<S>>,
    /// The directories on the way to a path.
    directories: BTreeMap<PathBuf, Armed>,
    /// When events were last lost.
    lost: Option<Instant>,
    /// The directories that we may not read and have logged.
    told: BTreeSet<PathBuf>,
    reach: Reach,
    apart: Apart,
}

/// The state of the watch on a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    /// inotify watches the directory with this device and inode.
    Yes((u64, u64)),
    /// The directory does not exist; its parent's watch reports when it is made.
    Missing,
    /// We may not read the directory. Its parent's watch reports when its owner or its mode changes; only
    /// the slow look sees changes in it.
    Forbidden,
    /// inotify refused a watch: only polling sees changes here.
    Refused,
    /// The directory may hang, and another thread has not set the watch yet.
    Unseen,
}

/// A change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchEvent<S> {
    /// On the paths of these subjects.
    Subjects(BTreeSet<S>),
    /// Events were lost: look at everything.
    Everything,
}

impl<S: Clone + Ord> Watcher<S> {
    /// A watcher that works even where the kernel refuses inotify: then it only polls.
    pub(crate) fn new(reach: Reach) -> Watcher<S> {
        let inotify = Inotify::new()
            .inspect_err(|error| tracing::warn!(%error, "cannot use inotify; polling for changes"));
        let mounts = Mounts::new()
            .inspect_err(|error| tracing::warn!(%error, "cannot watch mounts; polling for them"));
        Watcher {
            inotify: inotify.ok(),
            mounts: mounts.ok(),
            subjects: HashMap::new(),
            families: HashMap::new(),
            directories: BTreeMap::new(),
            lost: None,
            told: BTreeSet::new(),
            reach,
            apart: Apart::default(),
        }
    }

    /// Reports changes on the way to `path` to `subject` from now on.
    pub(crate) fn follow(&mut self, path: &Path, subject: &S) {
        self.want(path, subject);
        self.arm_way(path.ancestors().skip(1));
    }

    /// Ends what [`Watcher::follow`] began. A subject follows one path at a time.
    pub(crate) fn unfollow(&mut self, path: &Path, subject: &S) {
        for step in path.ancestors() {
            let Some(subjects) = self.subjects.get_mut(step) else {
                continue;
            };
            subjects.remove(subject);
            if subjects.is_empty() {
                self.subjects.remove(step);
                if self.directories.remove(step).is_some()
                    && let Some(inotify) = &mut self.inotify
                {
                    inotify.unwatch(step);
                }
            }
        }
    }

    /// Reports to `subject` changes on the way to `directory`, and each file in it that appears,
    /// disappears or changes.
    pub(crate) fn follow_children(&mut self, directory: &Path, subject: &S) {
        self.want(directory, subject);
        self.families
            .entry(directory.to_owned())
            .or_default()
            .insert(subject.clone());
        self.arm_way(directory.ancestors());
    }

    /// Ends what [`Watcher::follow_children`] began.
    pub(crate) fn unfollow_children(&mut self, directory: &Path, subject: &S) {
        if let Some(family) = self.families.get_mut(directory) {
            family.remove(subject);
            if family.is_empty() {
                self.families.remove(directory);
            }
        }
        self.unfollow(directory, subject);
    }

    fn want(&mut self, path: &Path, subject: &S) {
        for step in path.ancestors() {
            self.subjects
                .entry(step.to_owned())
                .or_default()
                .insert(subject.clone());
        }
    }

    /// Watches directories from the top down: the parent's watch reports a directory that is made
    /// meanwhile.
    fn arm_way<'a>(&mut self, upwards: impl Iterator<Item = &'a Path>) {
        let mut way: Vec<&Path> = upwards.collect();
        way.reverse();
        for directory in way {
            if !self.directories.contains_key(directory) {
                self.arm(directory);
            }
        }
    }

    /// Waits for the next change. Cancel safe.
    pub(crate) async fn changed(&mut self) -> WatchEvent<S> {
        loop {
            let (subjects, families) = (&self.subjects, &self.families);
            let matters = |path: &Path| {
                let parent = path.parent();
                subjects.contains_key(path)
                    || parent.is_some_and(|parent| families.contains_key(parent))
            };
            let told = tokio::select! {
                events = next_events(&mut self.inotify, matters) => match events {
                    Some(paths) => self.note(paths),
                    None => {
                        self.log_lost_events();
                        // The ends of watches may be among the lost events.
                        for directory in self.directories.clone().into_keys() {
                            self.arm(&directory);
                        }
                        return WatchEvent::Everything;
                    }
                },
                set = self.apart.next() => self.note_set(set),
                () = next_mount(&mut self.mounts) => {
                    self.reach.read_mounts();
                    self.apart.forget();
                    if self.resync() {
                        return WatchEvent::Everything;
                    }
                    continue;
                }
            };
            if !told.is_empty() {
                return WatchEvent::Subjects(told);
            }
        }
    }

    /// Watches again the directories that were replaced without an event, such as by a mount. Says
    /// whether there were any.
    pub(crate) fn resync(&mut self) -> bool {
        if self.inotify.is_none() {
            self.inotify = Inotify::new().ok();
        }
        if self.mounts.is_none() {
            self.reach.read_mounts();
        }
        let mut replaced = false;
        for (directory, before) in self.directories.clone() {
            if self.reach.may_hang(&directory) {
                self.arm_apart(&directory);
            } else if before.is_stale(&directory) {
                self.arm(&directory);
                // Polling looks at a directory without a watch anyway.
                let is_changed = self.directories.get(&directory) != Some(&before);
                replaced |= is_changed && before != Armed::Refused;
            }
        }
        replaced
    }

    /// Warns once for each storm, in which events are lost again and again.
    fn log_lost_events(&mut self) {
        let before = self.lost.replace(Instant::now());
        if before.is_some_and(|before| before.elapsed() < SAME_STORM) {
            tracing::debug!("events were lost again; looking at everything");
        } else {
            tracing::warn!("events were lost; looking at everything");
        }
    }

    /// Directories that exist and that only polling watches, because inotify refused.
    pub(crate) fn unwatched_paths(&self) -> impl Iterator<Item = &Path> {
        self.armed(Armed::Refused)
    }

    /// The topmost directories that we may not read.
    pub(crate) fn forbidden(&self) -> impl Iterator<Item = &Path> {
        self.armed(Armed::Forbidden)
            .filter(|directory| !self.is_below_forbidden(directory))
    }

    fn armed(&self, wanted: Armed) -> impl Iterator<Item = &Path> {
        self.directories
            .iter()
            .filter(move |(_, armed)| **armed == wanted)
            .map(|(path, _)| path.as_path())
    }

    fn is_below_forbidden(&self, directory: &Path) -> bool {
        let parent = directory.parent();
        parent.is_some_and(|parent| self.directories.get(parent) == Some(&Armed::Forbidden))
    }

    /// The subjects that follow these paths.
    fn note(&mut self, paths: BTreeSet<PathBuf>) -> BTreeSet<S> {
        let mut told = BTreeSet::new();
        for path in paths {
            let family = path.parent().and_then(|parent| self.families.get(parent));
            let followers = self.subjects.get(&path).into_iter().chain(family);
            told.extend(followers.flatten().cloned());
            // A directory on the way appeared, disappeared or was replaced: the watches below it are on
            // the old directories.
            let from_here = self.directories.range(path.clone()..);
            let below = from_here.take_while(|(directory, _)| directory.starts_with(&path));
            let below: Vec<PathBuf> = below.map(|(directory, _)| directory.clone()).collect();
            for directory in below {
                self.arm(&directory);
            }
        }
        told
    }

    fn arm(&mut self, directory: &Path) {
        if self.reach.may_hang(directory) {
            self.arm_apart(directory);
        } else {
            let armed = self.watch(directory);
            self.note_armed(directory, armed);
        }
    }

    fn note_armed(&mut self, directory: &Path, armed: Armed) {
        if armed == Armed::Refused && self.directories.get(directory) != Some(&Armed::Refused) {
            tracing::warn!(
                directory = %directory.display(),
                "inotify has no watch left (fs.inotify.max_user_watches); polling this directory"
            );
        }
        if armed != Armed::Forbidden {
            self.told.remove(directory);
        } else if !self.is_below_forbidden(directory) && self.told.insert(directory.to_owned()) {
            let words = self.unreadable(directory);
            tracing::warn!(directory = %directory.display(), "{words}");
        }
        self.directories.insert(directory.to_owned(), armed);
    }

    /// The message to the operator about a directory that we may not read.
    pub(crate) fn unreadable(&self, directory: &Path) -> String {
        let owner = if self.reach.may_hang(directory) {
            "owner unknown".to_owned()
        } else {
            directory::owner_and_mode(directory)
        };
        let directory = directory.display();
        format!("may not read {directory} ({owner}), and looks there every 30 s: {LET_US_READ}")
    }

    fn watch(&mut self, directory: &Path) -> Armed {
        let Some(inotify) = &mut self.inotify else {
            return Armed::Refused;
        };
        let watched = inotify.watch(directory);
        Armed::of(watched, || inode(directory))
    }
}

async fn next_events(
    inotify: &mut Option<Inotify>,
    matters: impl Fn(&Path) -> bool,
) -> Option<BTreeSet<PathBuf>> {
    let Some(inotify) = inotify else {
        return pending().await;
    };
    inotify.events(matters).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read inotify");
        None
    })
}

async fn next_mount(mounts: &mut Option<Mounts>) {
    let Some(table) = mounts else {
        return pending().await;
    };
    if let Err(error) = table.changed().await {
        tracing::warn!(%error, "cannot watch mounts any more; polling for them");
        *mounts = None;
    }
}

impl Armed {
    fn of(watched: nix::Result<()>, inode: impl FnOnce() -> Option<(u64, u64)>) -> Armed {
        match watched {
            Ok(()) => inode().map_or(Armed::Missing, Armed::Yes),
            Err(Errno::ENOENT | Errno::ENOTDIR) => Armed::Missing,
            Err(Errno::EACCES) => Armed::Forbidden,
            Err(_) => Armed::Refused,
        }
    }

    /// The watch is not on the directory that is at this path now. A refused watch is tried again each time.
    fn is_stale(self, directory: &Path) -> bool {
        match self {
            Armed::Yes(watched) => inode(directory) != Some(watched),
            Armed::Missing => inode(directory).is_some(),
            Armed::Forbidden | Armed::Refused | Armed::Unseen => true,
        }
    }
}

#[cfg(test)]
mod tests;
