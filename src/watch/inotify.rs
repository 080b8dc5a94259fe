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

use crate::polled::polled;

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
}

/// What happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Happening {
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
            instance: polled(instance, Interest::READABLE)?,
            watches: HashMap::new(),
            paths: HashMap::new(),
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

    /// Waits until something has happened. Cancel safe.
    pub(super) async fn happenings(&mut self) -> io::Result<Vec<Happening>> {
        loop {
            let mut ready = self.instance.readable().await?;
            let read = ready.try_io(|instance| match instance.get_ref().0.read_events() {
                Err(Errno::EAGAIN) => Err(io::ErrorKind::WouldBlock.into()),
                read => Ok(read?),
            });
            if let Ok(events) = read {
                return Ok(self.translate(events?));
            }
        }
    }

    fn translate(&mut self, events: Vec<InotifyEvent>) -> Vec<Happening> {
        let mut happenings = Vec::new();
        for event in events {
            if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                happenings.push(Happening::Lost);
                continue;
            }
            let Some(directories) = self.paths.get(&event.wd) else {
                continue;
            };
            let at = directories.iter().map(|directory| match &event.name {
                Some(name) => directory.join(name),
                None => directory.clone(),
            });
            happenings.extend(at.map(Happening::At));
            // The kernel has let go of it: the directory is gone, or what it is on was unmounted.
            if event.mask.contains(AddWatchFlags::IN_IGNORED)
                && let Some(directories) = self.paths.remove(&event.wd)
            {
                for directory in directories {
                    self.watches.remove(&directory);
                }
            }
        }
        happenings
    }
}
