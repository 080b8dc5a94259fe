//! The kernel's inotify as Go's fsnotify reports it: Create, Remove, and nothing else.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};
use tokio::io::unix::AsyncFd;

pub(super) struct Notifications {
    inotify: AsyncFd<Descriptor>,
    watched: HashMap<WatchDescriptor, PathBuf>,
}

pub(super) enum Notification {
    /// IN_CREATE or IN_MOVED_TO.
    Create(PathBuf),
    /// IN_DELETE or IN_DELETE_SELF. IN_MOVED_FROM is a Rename, which the kubelet ignores.
    Remove(PathBuf),
    /// The kernel's queue was full.
    Overflow,
}

/// tokio needs AsRawFd, which nix does not implement.
struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl Notifications {
    #[allow(
        deprecated,
        reason = "its successor is unsafe, which this crate forbids; Descriptor owns its fd and never changes it"
    )]
    pub(super) fn new() -> Self {
        let flags = InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC;
        Self {
            inotify: AsyncFd::new(Descriptor(Inotify::init(flags).unwrap())).unwrap(),
            watched: HashMap::new(),
        }
    }

    /// Watches a directory, or the target of a link to a directory.
    pub(super) fn watch(&mut self, dir: &Path) -> nix::Result<()> {
        // The same set that fsnotify asks for.
        let flags = AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF;
        let descriptor = self.inotify.get_ref().0.add_watch(dir, flags)?;
        self.watched.insert(descriptor, dir.to_owned());
        Ok(())
    }

    /// Waits for events; the result may be empty.
    pub(super) async fn next(&mut self) -> Vec<Notification> {
        let events = loop {
            let mut ready = self.inotify.readable().await.unwrap();
            let read = ready.try_io(|inotify| match inotify.get_ref().0.read_events() {
                Err(Errno::EAGAIN) => Err(io::ErrorKind::WouldBlock.into()),
                read => Ok(read.unwrap()),
            });
            if let Ok(read) = read {
                break read.unwrap();
            }
        };
        events
            .into_iter()
            .filter_map(|event| self.translate(event))
            .collect()
    }

    fn translate(&mut self, event: InotifyEvent) -> Option<Notification> {
        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
            return Some(Notification::Overflow);
        }
        let dir = self.watched.get(&event.wd)?.clone();
        // A watch ends with its directory, and fsnotify does not add it again for a new directory of
        // that name: after plugins_registry was deleted, a kubelet sees nothing.
        if event.mask.contains(AddWatchFlags::IN_IGNORED) {
            self.watched.remove(&event.wd);
            return None;
        }
        let path = match event.name {
            Some(name) => dir.join(name),
            None => dir,
        };
        let created = AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO;
        let removed = AddWatchFlags::IN_DELETE | AddWatchFlags::IN_DELETE_SELF;
        if event.mask.intersects(created) {
            Some(Notification::Create(path))
        } else if event.mask.intersects(removed) {
            Some(Notification::Remove(path))
        } else {
            None
        }
    }
}
