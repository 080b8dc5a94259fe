//! inotify itself: the watches on directories, and the events in them.
//!
//! The mask asks the kernel only for events that change which file is at a path. With opens and writes in
//! it, every reader of a directory on the way would wake us: 313 times a minute on a quiet node with notify
//! 8.2, which cannot set the mask. notify 9.0.0-rc.7 can. It was measured in place of this file and passed
//! all tests, but needs more code around it (it does not watch a replaced directory again, and reports one
//! of two paths to a directory), a second thread, eight crates, and twice the CPU time in a storm of events.

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

/// How often the queue is read before a subject looks: about half of the longest queue that the kernel
/// keeps. A storm may fill it as fast as we read it.
const READINGS: usize = 64;

const CHANGES: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_ONLYDIR);

/// An inotify instance, and its watches.
pub(super) struct Inotify {
    instance: AsyncFd<Handle>,
    watches: HashMap<PathBuf, WatchDescriptor>,
    /// Two paths to one directory share a watch.
    paths: HashMap<WatchDescriptor, BTreeSet<PathBuf>>,
    throttle: Throttle,
}

/// Sets watches, from any thread.
#[derive(Clone)]
pub(super) struct Handle(Arc<inotify::Inotify>);

/// tokio needs AsRawFd, which nix does not implement.
impl AsRawFd for Handle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Handle {
    pub(super) fn watch(&self, directory: &Path) -> nix::Result<WatchDescriptor> {
        self.0.add_watch(directory, CHANGES)
    }
}

impl Inotify {
    pub(super) fn new() -> io::Result<Inotify> {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        let instance = Handle(Arc::new(inotify::Inotify::init(flags)?));
        Ok(Inotify {
            instance: async_fd(instance, Interest::READABLE)?,
            watches: HashMap::new(),
            paths: HashMap::new(),
            throttle: Throttle::new(),
        })
    }

    /// Watches the directory that is at this path now. The watch on an earlier directory ends only then, so
    /// that no event is missed in between.
    pub(super) fn watch(&mut self, directory: &Path) -> nix::Result<()> {
        let added = self.handle().watch(directory);
        self.note(directory, added)
    }

    pub(super) fn handle(&self) -> &Handle {
        self.instance.get_ref()
    }

    /// Records the watch that the kernel has set on `directory`.
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
            // EINVAL: the watch has ended with its directory, and we have not read that event yet.
            if let Err(error) = self.handle().0.rm_watch(watch)
                && error != Errno::EINVAL
            {
                tracing::debug!(%error, directory = %directory.display(), "cannot end a watch");
            }
        }
    }

    /// Waits for events at paths that matter: another file is at these paths now, or none. Several
    /// events at a path count once. None when events were lost. Cancel safe.
    pub(super) async fn events(
        &mut self,
        matters: impl Fn(&Path) -> bool,
    ) -> io::Result<Option<BTreeSet<PathBuf>>> {
        let mut paths = BTreeSet::new();
        let mut lost = false;
        while paths.is_empty() && !lost {
            self.throttle.rest().await;
            drop(self.instance.readable().await?);
            self.throttle.begin();
            for _ in 0..READINGS {
                let read = self.instance.try_io(Interest::READABLE, |instance| {
                    Ok(instance.0.read_events()?)
                });
                match read {
                    Ok(read) => {
                        let overflow = AddWatchFlags::IN_Q_OVERFLOW;
                        lost |= read.iter().any(|event| event.mask.contains(overflow));
                        self.translate(read, &matters, &mut paths);
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok((!lost).then_some(paths))
    }

    fn translate(
        &mut self,
        read: Vec<InotifyEvent>,
        matters: impl Fn(&Path) -> bool,
        paths: &mut BTreeSet<PathBuf>,
    ) {
        for event in read {
            let Some(directories) = self.paths.get(&event.wd) else {
                continue;
            };
            let at = directories.iter().map(|directory| match &event.name {
                Some(name) => directory.join(name),
                None => directory.clone(),
            });
            paths.extend(at.filter(|path| matters(path)));
            // The kernel has ended the watch: the directory is deleted, or its file system unmounted.
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
