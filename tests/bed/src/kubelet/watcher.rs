//! The plugin watcher: walks plugins_registry once, then relies on inotify.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::Path;
use std::rc::Rc;

use super::inotify::{Notification, Notifications};
use super::record::Event;
use super::world::World;

pub(super) struct Watcher {
    world: Rc<World>,
    notifications: Notifications,
}

impl Watcher {
    /// Watches before it walks, so that no file is missed in between.
    pub(super) fn start(world: Rc<World>) -> Self {
        let dir = world.settings.plugins_registry();
        let mut watcher = Self {
            world,
            notifications: Notifications::new(),
        };
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o750)
            .create(&dir)
            .unwrap();
        watcher.traverse(&dir);
        watcher
    }

    pub(super) async fn step(&mut self) {
        for notification in self.notifications.next().await {
            match notification {
                Notification::Create(path) => self.created(&path),
                Notification::Remove(path) => self.world.unwant(&path),
                Notification::Overflow => self.error("fsnotify: queue or buffer overflow"),
            }
        }
    }

    /// Looks at a path once. A path that fails now is never looked at again.
    fn created(&mut self, path: &Path) {
        // The stat comes before the check for a leading dot: a hidden temporary file that is gone by
        // now causes an error line.
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                return self.error(&format!("stat file {} failed: {error}", path.display()));
            }
        };
        if is_hidden(path) {
            return;
        }
        if metadata.is_dir() {
            self.traverse(path);
        } else if metadata.file_type().is_socket() {
            self.world.want(path);
        }
    }

    /// Go's filepath.Walk with the kubelet's function: the kubelet watches the root even if it is a
    /// link to a directory, but then finds nothing, because Walk does not follow the link.
    fn traverse(&mut self, dir: &Path) {
        if let Err(error) = self.notifications.watch(dir) {
            return self.error(&format!("failed to watch {}, err: {error}", dir.display()));
        }
        if dir.symlink_metadata().is_ok_and(|found| found.is_dir()) {
            self.walk(dir);
        }
    }

    fn walk(&mut self, dir: &Path) {
        let entries = match fs::read_dir(dir) {
            Ok(entries) => entries,
            Err(error) => {
                return self.error(&format!("Error accessing path {}: {error}", dir.display()));
            }
        };
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            match path.symlink_metadata() {
                Ok(found) if found.is_dir() => match self.notifications.watch(&path) {
                    Ok(()) => self.walk(&path),
                    Err(error) => {
                        self.error(&format!("failed to watch {}, err: {error}", path.display()));
                    }
                },
                Ok(found) if self.is_socket_to_the_walk(&path, &found) => self.created(&path),
                Ok(_) => {}
                Err(error) => {
                    self.error(&format!("Error accessing path {}: {error}", path.display()));
                }
            }
        }
    }

    fn is_socket_to_the_walk(&self, path: &Path, found: &fs::Metadata) -> bool {
        if self.world.settings.release.walk_follows_links() {
            fs::metadata(path).is_ok_and(|target| target.file_type().is_socket())
        } else {
            found.file_type().is_socket()
        }
    }

    fn error(&self, text: &str) {
        let text = text.to_owned();
        self.world.ledger.write(Event::ErrorLine { text });
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name()
        .is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}
