//! Watches paths that may not exist yet, with one inotify instance for the whole process.
//!
//! A subject follows a path. Each directory on the way to it is watched, so that the path may
//! appear, go, be replaced or move at any level. An event only means "look again": subjects are
//! told that something on their path changed, never what. A subject may also follow a directory
//! with whatever is in it. A mount over one of the directories counts as its replacement.

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
use self::inotify::{FsEvent, Inotify};
use self::mounts::Mounts;
use crate::disk::directory::{self, LET_US_READ, inode};
use crate::disk::reach::Reach;

/// Events that are lost sooner than this after others belong to the same storm.
const SAME_STORM: Duration = Duration::from_secs(60);

/// Watches the paths that subjects of type `S` follow.
pub(crate) struct Watcher<S> {
    /// None where it cannot be had.
    inotify: Option<Inotify>,
    /// None where the table of mounts cannot be read.
    mounts: Option<Mounts>,
    /// Who wants to know about each path and each directory on the way to one.
    subjects: HashMap<PathBuf, BTreeSet<S>>,
    /// Who wants to know about whatever is in a directory.
    families: HashMap<PathBuf, BTreeSet<S>>,
    /// Directories on the way, with what was there when the watch was set.
    directories: BTreeMap<PathBuf, Armed>,
    /// When events were last lost.
    lost: Option<Instant>,
    /// Directories that we may not read, and that were told of.
    told: BTreeSet<PathBuf>,
    reach: Reach,
    apart: Apart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    /// inotify watches the directory that has this device and inode.
    Yes((u64, u64)),
    /// The directory is not there; its parent's watch tells when it comes.
    Missing,
    /// We may not read the directory. Its parent's watch tells when its owner or its mode changes;
    /// what happens in it is seen by the slow look.
    Forbidden,
    /// inotify would not: only polling sees changes here.
    Refused,
    /// It may hang, and nobody has seen it yet.
    Unseen,
}

/// What changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchEvent<S> {
    Subjects(BTreeSet<S>),
    /// Events were lost: look at everything.
    Everything,
}

impl<S: Clone + Ord> Watcher<S> {
    /// A watcher that works even where inotify cannot be had: then it only polls.
    pub(crate) fn new(reach: Reach) -> Watcher<S> {
        let inotify = Inotify::new().inspect_err(
            |error| tracing::warn!(%error, "inotify cannot be had, so changes are unwatched_paths for"),
        );
        Watcher {
            inotify: inotify.ok(),
            mounts: Mounts::new()
                .inspect_err(
                    |error| tracing::warn!(%error, "mounts cannot be watched, so they are unwatched_paths for"),
                )
                .ok(),
            subjects: HashMap::new(),
            families: HashMap::new(),
            directories: BTreeMap::new(),
            lost: None,
            told: BTreeSet::new(),
            reach,
            apart: Apart::new(),
        }
    }

    /// Tells `subject` of changes on the way to `path` from now on.
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

    /// Tells `subject` of changes on the way to `directory`, and of each name in it that comes,
    /// goes or changes.
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

    /// Watches directories from the top down: one that is made meanwhile is told by its parent's
    /// watch.
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
            let happenings = tokio::select! {
                happenings = next_happenings(&mut self.inotify, matters) => happenings,
                set = self.apart.next() => {
                    let told = self.note_set(set);
                    if !told.is_empty() {
                        return WatchEvent::Subjects(told);
                    }
                    continue;
                }
                () = next_mount(&mut self.mounts) => {
                    self.reach.read_mounts();
                    self.apart.forget();
                    if self.resync() {
                        return WatchEvent::Everything;
                    }
                    continue;
                }
            };
            if happenings.contains(&FsEvent::Lost) {
                self.say_that_events_were_lost();
                self.arm_all();
                return WatchEvent::Everything;
            }
            let mut told = BTreeSet::new();
            for happening in happenings {
                if let FsEvent::At(path) = happening {
                    self.note(&path, &mut told);
                }
            }
            if !told.is_empty() {
                return WatchEvent::Subjects(told);
            }
        }
    }

    /// Sets right the watches on directories that were replaced without an event, such as by a
    /// mount, and says whether there were any.
    pub(crate) fn resync(&mut self) -> bool {
        if self.inotify.is_none() {
            self.inotify = Inotify::new().ok();
        }
        if self.mounts.is_none() {
            self.reach.read_mounts();
        }
        let all = self.directories.iter();
        let all: Vec<_> = all.map(|(path, armed)| (path.clone(), *armed)).collect();
        let mut replaced = false;
        for (directory, before) in all {
            if self.reach.may_hang(&directory) {
                self.arm_apart(&directory);
            } else if before.is_stale(&directory) {
                self.arm(&directory);
                replaced |= match before {
                    Armed::Refused => false,
                    Armed::Forbidden => self.directories.get(&directory) != Some(&before),
                    Armed::Yes(_) | Armed::Missing | Armed::Unseen => true,
                };
            }
        }
        replaced
    }

    /// Once for each storm, in which they are lost again and again.
    fn say_that_events_were_lost(&mut self) {
        let before = self.lost.replace(Instant::now());
        if before.is_some_and(|before| before.elapsed() < SAME_STORM) {
            tracing::debug!("events were lost again, so everything is looked at");
        } else {
            tracing::warn!("events were lost, so everything is looked at");
        }
    }

    /// Which watches have ended is among what was lost.
    fn arm_all(&mut self) {
        let all: Vec<PathBuf> = self.directories.keys().cloned().collect();
        for directory in all {
            self.arm(&directory);
        }
    }

    /// Directories that exist and that inotify does not watch, so that only polling helps.
    pub(crate) fn unwatched_paths(&self) -> impl Iterator<Item = &Path> {
        self.armed(Armed::Refused)
    }

    /// The topmost directories that we may not read.
    pub(crate) fn forbidden(&self) -> impl Iterator<Item = &Path> {
        let below_another = |directory: &Path| self.is_below_forbidden(directory);
        self.armed(Armed::Forbidden)
            .filter(move |directory| !below_another(directory))
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

    fn note(&mut self, path: &Path, told: &mut BTreeSet<S>) {
        if let Some(subjects) = self.subjects.get(path) {
            told.extend(subjects.iter().cloned());
        }
        if let Some(family) = path.parent().and_then(|parent| self.families.get(parent)) {
            told.extend(family.iter().cloned());
        }
        // A directory on the way came, went or was replaced: what was watched below it is not
        // what is there now.
        let below: Vec<PathBuf> = self
            .directories
            .range(path.to_owned()..)
            .take_while(|(directory, _)| directory.starts_with(path))
            .map(|(directory, _)| directory.clone())
            .collect();
        for directory in below {
            self.arm(&directory);
        }
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
                "inotify has no watch left (fs.inotify.max_user_watches), so this directory is unwatched_paths"
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

    /// What an operator has to know of a directory that we may not read.
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

async fn next_happenings(
    inotify: &mut Option<Inotify>,
    matters: impl Fn(&Path) -> bool,
) -> BTreeSet<FsEvent> {
    let Some(inotify) = inotify else {
        return pending().await;
    };
    inotify.happenings(matters).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "inotify cannot be read");
        BTreeSet::from([FsEvent::Lost])
    })
}

async fn next_mount(mounts: &mut Option<Mounts>) {
    let Some(table) = mounts else {
        return pending().await;
    };
    if let Err(error) = table.changed().await {
        tracing::warn!(%error, "mounts cannot be watched any more, so they are unwatched_paths for");
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

    /// The watch does not fit what is at `directory` now; what was refused is tried again each time.
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
