//! Watches paths that may not exist yet, with one inotify instance for the whole process.
//!
//! A subject follows a path. Each directory on the way to it is watched, so that the path may
//! appear, go, be replaced or move at any level. An event only means "look again": subjects are
//! told that something on their path changed, never what. A subject may also follow a directory
//! with whatever is in it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use notify::event::{EventKind, ModifyKind};
use notify::{Config, ErrorKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;

/// Events that wait to be looked at. When there are more, everything is looked at instead.
const BACKLOG: usize = 1024;

/// Watches the paths that subjects of type `S` follow.
pub(crate) struct Watcher<S> {
    inotify: Option<RecommendedWatcher>,
    events: mpsc::Receiver<PathBuf>,
    shared: Arc<Shared>,
    /// Who wants to know about each path and each directory on the way to one.
    subjects: HashMap<PathBuf, BTreeSet<S>>,
    /// Who wants to know about whatever is in a directory.
    families: HashMap<PathBuf, BTreeSet<S>>,
    /// Directories on the way, with what was there when the watch was set.
    directories: BTreeMap<PathBuf, Armed>,
}

/// What the thread of the notify crate needs.
struct Shared {
    /// What matters. Everything else ends in the callback.
    wanted: Mutex<Wanted>,
    /// Events were lost: by the kernel, or because nobody took them in time.
    overflowed: AtomicBool,
}

#[derive(Default)]
struct Wanted {
    paths: HashSet<PathBuf>,
    /// Directories of which every child matters.
    parents: HashSet<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    /// inotify watches the directory that has this device and inode.
    Yes((u64, u64)),
    /// The directory is not there; its parent's watch tells when it comes.
    Missing,
    /// inotify would not: only polling sees changes here.
    Refused,
}

/// What changed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change<S> {
    Subjects(BTreeSet<S>),
    /// Events were lost: look at everything.
    Everything,
}

impl<S: Clone + Ord> Watcher<S> {
    /// A watcher that works even where inotify cannot be had: then it only polls.
    pub(crate) fn new() -> Watcher<S> {
        let shared = Arc::new(Shared {
            wanted: Mutex::default(),
            overflowed: AtomicBool::new(false),
        });
        let (sender, events) = mpsc::channel(BACKLOG);
        let heard = shared.clone();
        let inotify = RecommendedWatcher::new(
            move |event| heard.take(event, &sender),
            Config::default(),
        )
        .inspect_err(
            |error| tracing::warn!(%error, "inotify cannot be had, so changes are polled for"),
        )
        .ok();
        Watcher {
            inotify,
            events,
            shared,
            subjects: HashMap::new(),
            families: HashMap::new(),
            directories: BTreeMap::new(),
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
                self.shared.wanted().paths.remove(step);
                if self.directories.remove(step).is_some() {
                    self.disarm(step);
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
        self.shared.wanted().parents.insert(directory.to_owned());
        self.arm_way(directory.ancestors());
    }

    /// Ends what [`Watcher::follow_children`] began.
    pub(crate) fn unfollow_children(&mut self, directory: &Path, subject: &S) {
        if let Some(family) = self.families.get_mut(directory) {
            family.remove(subject);
            if family.is_empty() {
                self.families.remove(directory);
                self.shared.wanted().parents.remove(directory);
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
            self.shared.wanted().paths.insert(step.to_owned());
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
    pub(crate) async fn changed(&mut self) -> Change<S> {
        let mut told = BTreeSet::new();
        let Some(first) = self.events.recv().await else {
            return std::future::pending().await;
        };
        self.note(&first, &mut told);
        while let Ok(path) = self.events.try_recv() {
            self.note(&path, &mut told);
        }
        if self.shared.overflowed.swap(false, Ordering::AcqRel) {
            tracing::warn!("events were lost, so everything is looked at");
            self.resync();
            return Change::Everything;
        }
        Change::Subjects(told)
    }

    /// Sets right the watches on directories that were replaced without an event, such as by a
    /// mount.
    pub(crate) fn resync(&mut self) {
        let stale: Vec<PathBuf> = self
            .directories
            .iter()
            .filter(|(path, armed)| armed.is_stale(path))
            .map(|(path, _)| path.clone())
            .collect();
        for directory in stale {
            self.arm(&directory);
        }
    }

    /// Directories that exist and that inotify does not watch, so that only polling helps.
    pub(crate) fn polled(&self) -> impl Iterator<Item = &Path> {
        self.directories
            .iter()
            .filter(|(_, armed)| **armed == Armed::Refused)
            .map(|(path, _)| path.as_path())
    }

    fn note(&mut self, path: &Path, told: &mut BTreeSet<S>) {
        if let Some(subjects) = self.subjects.get(path) {
            told.extend(subjects.iter().cloned());
        }
        if let Some(family) = path.parent().and_then(|parent| self.families.get(parent)) {
            told.extend(family.iter().cloned());
        }
        // A directory on the way came, went or was replaced: what was watched below it is not
        // what is there now. The notify crate drops watches by path, so they are set anew even
        // where the inode number is the same.
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
        self.disarm(directory);
        let armed = self.watch(directory);
        if armed == Armed::Refused && self.directories.get(directory) != Some(&Armed::Refused) {
            tracing::warn!(
                directory = %directory.display(),
                "inotify has no watch left (fs.inotify.max_user_watches), so this directory is polled"
            );
        }
        self.directories.insert(directory.to_owned(), armed);
    }

    fn watch(&mut self, directory: &Path) -> Armed {
        let Some(inotify) = &mut self.inotify else {
            return Armed::Refused;
        };
        match inotify.watch(directory, RecursiveMode::NonRecursive) {
            Ok(()) => inode(directory).map_or(Armed::Missing, Armed::Yes),
            Err(error) => match error.kind {
                ErrorKind::PathNotFound => Armed::Missing,
                ErrorKind::Io(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    Armed::Missing
                }
                _ => Armed::Refused,
            },
        }
    }

    fn disarm(&mut self, directory: &Path) {
        if let Some(inotify) = &mut self.inotify
            && let Err(error) = inotify.unwatch(directory)
            && !matches!(error.kind, ErrorKind::WatchNotFound)
        {
            tracing::debug!(%error, directory = %directory.display(), "cannot end a watch");
        }
    }
}

impl Armed {
    /// The watch does not fit what is at `directory` now; a refusal is tried again each time.
    fn is_stale(self, directory: &Path) -> bool {
        match self {
            Armed::Yes(watched) => inode(directory) != Some(watched),
            Armed::Missing => inode(directory).is_some(),
            Armed::Refused => true,
        }
    }
}

/// Device and inode of a directory, or none when it cannot be reached.
fn inode(directory: &Path) -> Option<(u64, u64)> {
    fs::metadata(directory)
        .ok()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

impl Shared {
    /// Called on the notify crate's own thread.
    fn take(&self, event: notify::Result<notify::Event>, sender: &mpsc::Sender<PathBuf>) {
        let event = match event {
            // notify reports opens and closes too, our own included, and writes to any file in
            // the directory. None of them changes what is at a path.
            Ok(event)
                if matches!(
                    event.kind,
                    EventKind::Access(_) | EventKind::Modify(ModifyKind::Data(_))
                ) =>
            {
                return;
            }
            Ok(event) => event,
            Err(error) => {
                tracing::warn!(%error, "inotify failed, so everything is looked at");
                return self.overflow(sender);
            }
        };
        if event.need_rescan() {
            return self.overflow(sender);
        }
        for path in event.paths {
            if self.wanted().includes(&path) && sender.try_send(path).is_err() {
                self.overflowed.store(true, Ordering::Release);
            }
        }
    }

    /// An empty path wakes the reader, who then finds the flag. A full queue wakes it anyway.
    fn overflow(&self, sender: &mpsc::Sender<PathBuf>) {
        self.overflowed.store(true, Ordering::Release);
        if sender.try_send(PathBuf::new()).is_err() {
            tracing::debug!("the queue of events is full");
        }
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wanted {
    fn includes(&self, path: &Path) -> bool {
        let parent = path.parent();
        self.paths.contains(path) || parent.is_some_and(|parent| self.parents.contains(parent))
    }
}

#[cfg(test)]
mod tests;
