//! inotify itself: which directories are watched, and what happened in them.
//!
//! The kernel is asked only for what changes what is at a path. With opens and writes, which the
//! notify crate asks for too, every reader of a directory on the way would wake us.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::sys::inotify::{self, AddWatchFlags, InitFlags, InotifyEvent, WatchDescriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::throttle::Throttle;
use crate::os::async_fd::async_fd;

/// How often the queue is read before anything is looked at, which is about half of the longest that
/// the kernel keeps. A storm may fill it as fast as it is read.
const READINGS: usize = 64;

const CHANGES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_ONLYDIR);

/// One instance, and its watches.
pub(super) struct Inotify {
    instance: AsyncFd<Instance>,
    watches: HashMap<PathBuf, WatchDescriptor>,
    /// Two paths to one directory share a watch.
    paths: HashMap<WatchDescriptor, BTreeSet<PathBuf>>,
    throttle: Throttle,
}

/// What happened.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FsEvent {
    /// Something else is at this path now, or nothing.
    At(PathBuf),
    /// Events were lost.
    Lost,
}

/// tokio wants AsRawFd, which nix does not give.
struct Instance(Arc<inotify::Inotify>);

impl AsRawFd for Instance {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Sets watches, and knows of none.
pub(super) struct Handle(Arc<inotify::Inotify>);

impl Handle {
    pub(super) fn watch(&self, directory: &Path) -> nix::Result<WatchDescriptor> {
        self.0.add_watch(directory, CHANGES)
    }
}

impl Inotify {
    pub(super) fn new() -> io::Result<Inotify> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let instance = Instance(Arc::new(inotify::Inotify::init(flags)?));
        Ok(Inotify {
            instance: async_fd(instance, Interest::READABLE)?,
            watches: HashMap::new(),
            paths: HashMap::new(),
            throttle: Throttle::new(),
        })
    }

    /// Watches what is at `directory` now. One that was watched there before is let go only then,
    /// so that nothing is missed between the two.
    pub(super) fn watch(&mut self, directory: &Path) -> nix::Result<()> {
        let added = self.handle().watch(directory);
        self.note(directory, added)
    }

    /// What sets a watch from any thread.
    pub(super) fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.instance.get_ref().0))
    }

    /// The kernel has this watch for what is at `directory`.
    pub(super) fn note(
        &mut self,
        directory: &Path,
        added: nix::Result<WatchDescriptor>,
    ) -> nix::Result<()> {
        if self.watches.get(directory).copied() == added.ok() {
            return added.map(drop);
        }
        self.unwatch(directory);
        let watch = added?;
        self.watches.insert(directory.to_owned(), watch);
        let paths = self.paths.entry(watch).or_default();
        paths.insert(directory.to_owned());
        Ok(())
    }

    pub(super) fn unwatch(&mut self, directory: &Path) {
        let Some(watch) = self.watches.remove(directory) else {
            return;
        };
        let Some(paths) = self.paths.get_mut(&watch) else {
            return;
        };
        paths.remove(directory);
        if paths.is_empty() {
            self.paths.remove(&watch);
            match self.instance.get_ref().0.rm_watch(watch) {
                // It has ended with its directory, and we have not read that yet.
                Ok(()) | Err(Errno::EINVAL) => {}
                Err(error) => {
                    tracing::debug!(%error, directory = %directory.display(), "cannot end a watch");
                }
            }
        }
    }

    /// Waits until something has happened at a path that matters. What happened there more than once
    /// is told once. Cancel safe.
    pub(super) async fn happenings(
        &mut self,
        matters: impl Fn(&Path) -> bool,
    ) -> io::Result<BTreeSet<FsEvent>> {
        let mut happenings = BTreeSet::new();
        while happenings.is_empty() {
            self.throttle.rest().await;
            drop(self.instance.readable().await?);
            self.throttle.begin();
            for _ in 0..READINGS {
                let Some(events) = self.read()? else {
                    break;
                };
                self.translate(events, &matters, &mut happenings);
            }
        }
        Ok(happenings)
    }

    /// None when there is nothing more to read.
    fn read(&self) -> io::Result<Option<Vec<InotifyEvent>>> {
        let read = self.instance.try_io(Interest::READABLE, |instance| {
            match instance.0.read_events() {
                Err(Errno::EAGAIN) => Err(io::ErrorKind::WouldBlock.into()),
                read => Ok(read?),
            }
        });
        match read {
            Ok(events) => Ok(Some(events)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn translate(
        &mut self,
        events: Vec<InotifyEvent>,
        matters: impl Fn(&Path) -> bool,
        happenings: &mut BTreeSet<FsEvent>,
    ) {
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                happenings.insert(FsEvent::Lost);
                continue;
            }
            let Some(directories) = self.paths.get(&event.wd) else {
                continue;
            };
            let at = directories.iter().map(|directory| match &event.name {
                Some(name) => directory.join(name),
                None => directory.clone(),
            });
            let at = at.filter(|path| matters(path));
            happenings.extend(at.map(FsEvent::At));
            // The kernel has let go of it: the directory is gone, or what it is on was unmounted.
            if event.mask.contains(AddWatchFlags::IN_IGNORED)
                && let Some(directories) = self.paths.remove(&event.wd)
            {
                for directory in directories {
                    self.watches.remove(&directory);
                }
            }
        }
    }
}
