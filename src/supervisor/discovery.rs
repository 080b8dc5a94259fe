//! Drivers that nobody wrote down: each directory in plugins_dir with a csi.sock is one.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::timers::Schedule;
use super::{DriverId, Report, Subject, Supervisor, tell};
use crate::config::Settings;
use crate::disk::directory::is_missing;
use crate::disk::reach::Reach;
use crate::driver::Record;
use crate::os::clock::Moment;
use crate::os::task::Task;
use crate::os::text::garbles;

/// A directory that has been away for so long does not come back: an upgrade of the driver or a
/// late mount takes less.
const GONE_FOR_GOOD: Duration = Duration::from_secs(300);

/// How long a look in another thread may take before the next one is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of plugins_dir beside the drivers that were found there.
#[derive(Default)]
pub(super) struct Discovery {
    /// The directory that is watched, while discovery is on.
    directory: Option<PathBuf>,
    /// Sockets that a table of the configuration names.
    named: HashSet<PathBuf>,
    /// Directories without a csi.sock so far.
    empty: BTreeSet<DriverId>,
    /// Since when directories of drivers that a kubelet holds are gone.
    gone: HashMap<DriverId, Moment>,
    /// When those drivers are given up.
    pub(super) departures: Schedule,
    /// The directory could not be read the last time.
    unreadable: bool,
    /// Looks of other threads, at paths that may hang: one that runs, and one for what has happened
    /// since it began.
    apart: HashMap<PathBuf, [Option<Task>; 2]>,
}

impl Discovery {
    fn csi_socket(&self, id: &str) -> Option<PathBuf> {
        Some(self.directory.as_ref()?.join(id).join("csi.sock"))
    }

    /// The driver is no longer one whose directory is gone.
    pub(super) fn stays(&mut self, id: &DriverId) {
        self.gone.remove(id);
        self.departures.set(id, None);
    }
}

impl Supervisor {
    /// Begins to watch plugins_dir as the settings have it now, or ends it.
    pub(super) fn watch_plugins(&mut self) {
        let before = std::mem::take(&mut self.discovery);
        if let Some(old) = &before.directory {
            for id in before.empty {
                let socket = old.join(&*id).join("csi.sock");
                self.watcher.unfollow(&socket, &Subject::Candidate(id));
            }
            self.watcher.unfollow_children(old, &Subject::Plugins);
        }
        if !self.settings.discovery.enabled {
            return;
        }
        let directory = self.settings.plugins_dir.clone();
        // A reload changes nothing about how long they have been gone.
        if before.directory.as_ref() == Some(&directory) {
            self.discovery.gone = before.gone;
        }
        self.watcher.follow_children(&directory, &Subject::Plugins);
        self.discovery.directory = Some(directory);
        self.discovery.named = named(&self.settings);
    }

    /// Whether a directory of this name is a driver when there is a csi.sock in it. What a table
    /// says of the id or of the socket goes before.
    pub(super) fn discovers(&self, id: &str) -> bool {
        let socket = self.discovery.csi_socket(id);
        socket.is_some_and(|socket| is_free(&self.settings, &self.discovery.named, id, &socket))
    }

    /// A driver of an earlier run that somebody still counts on, wherever its directory is now.
    pub(super) fn still_discovers(&self, id: &str, record: &Record) -> bool {
        record.is_held() && self.discovers(id)
    }

    /// Whether a driver that discovery looks after would be found now. What may hang is taken to be
    /// there until it has been looked at.
    pub(super) fn has_plugin(&self, id: &str) -> bool {
        let there = |socket: PathBuf| self.reach.may_hang(&socket) || is_there(&socket);
        self.discovers(id) && self.discovery.csi_socket(id).is_some_and(there)
    }

    /// Looks at plugins_dir. The only place that reads a directory while we run: for an event in plugins_dir itself, and at the resync.
    pub(super) fn look_at_plugins(&mut self) {
        let Some(directory) = self.discovery.directory.clone() else {
            return;
        };
        let (reach, path) = (self.reach.clone(), directory.clone());
        let look = move || plugins(&path, &reach);
        if self.reach.may_hang(&directory) {
            let path = directory.clone();
            self.look_apart(&directory, look, |seen| Some(Report::Plugins(path, seen)));
        } else {
            self.plugins_seen(&directory, look());
        }
    }

    /// Looks in another thread, which reports what it saw.
    fn look_apart<T: Send + 'static>(
        &mut self,
        path: &Path,
        look: impl FnOnce() -> T + Send + 'static,
        report: impl FnOnce(T) -> Option<Report> + Send + 'static,
    ) {
        let places = self.discovery.apart.entry(path.to_owned()).or_default();
        let is_free = |place: &&mut Option<Task>| place.as_ref().is_none_or(Task::is_finished);
        let Some(place) = places.iter_mut().find(is_free) else {
            return;
        };
        let (reach, reporter, path) = (self.reach.clone(), self.reporter.clone(), path.to_owned());
        // One at a time looks at a mount, so that this one begins when the one before it is done.
        *place = Some(Task::spawn(async move {
            let seen = reach.look(&path, PATIENCE, look).await;
            if let Some(report) = seen.ok().and_then(report) {
                tell(&reporter, report);
            }
        }));
    }

    /// Compares what is in plugins_dir with what is known. A reload may have made it another one
    /// since it was looked at.
    pub(super) fn plugins_seen(
        &mut self,
        directory: &Path,
        seen: io::Result<Option<BTreeSet<DriverId>>>,
    ) {
        if self.discovery.directory.as_deref() != Some(directory) {
            return;
        }
        let there = match seen {
            Ok(there) => there,
            Err(error) => {
                if !std::mem::replace(&mut self.discovery.unreadable, true) {
                    tracing::warn!(%error, directory = %directory.display(), "cannot look for drivers in plugins_dir");
                }
                return;
            }
        };
        self.discovery.unreadable = false;
        let is_mounted = there.is_some();
        let there = there.unwrap_or_default();
        let gone = |id: &&DriverId| !there.contains(*id);
        let emptied: Vec<DriverId> = self.discovery.empty.iter().filter(gone).cloned().collect();
        for id in emptied {
            self.drop_candidate(&id);
        }
        let found = self.entries.iter().filter(|(_, entry)| entry.found);
        let left: Vec<DriverId> = found.map(|(id, _)| id).filter(gone).cloned().collect();
        for id in left {
            self.directory_gone(&id, is_mounted);
        }
        for id in there {
            if !self.discovers(&id) {
                continue;
            }
            if self.entries.contains_key(&id) {
                self.discovery.stays(&id);
            } else {
                self.look_at_candidate(&id);
            }
        }
    }

    /// Looks whether a directory has become a driver's.
    pub(super) fn look_at_candidate(&mut self, id: &DriverId) {
        let Some(socket) = self.discovery.csi_socket(id) else {
            return;
        };
        if self.entries.contains_key(id) {
            return;
        }
        let subject = Subject::Candidate(id.clone());
        if self.reach.may_hang(&socket) {
            if self.discovery.empty.insert(id.clone()) {
                self.watcher.follow(&socket, &subject);
            }
            let (path, found) = (
                socket.clone(),
                Report::Candidate(id.clone(), socket.clone()),
            );
            return self.look_apart(
                &socket,
                move || is_there(&path),
                |there| there.then_some(found),
            );
        }
        if !is_there(&socket) && self.discovery.empty.insert(id.clone()) {
            self.watcher.follow(&socket, &subject);
        }
        // What happened between the look and the watch would go unseen.
        if is_there(&socket) {
            self.found(id, &socket);
        }
    }

    /// Another thread has seen that a directory has become a driver's.
    pub(super) fn candidate_seen(&mut self, id: &DriverId, socket: &Path) {
        let is_awaited = self.discovery.empty.contains(id);
        if is_awaited && self.discovery.csi_socket(id).as_deref() == Some(socket) {
            self.found(id, socket);
        }
    }

    fn found(&mut self, id: &DriverId, socket: &Path) {
        tracing::info!(driver = %id, csi_socket = %socket.display(), "{id}: found");
        self.add(id, None);
        self.drop_candidate(id);
        self.changed = true;
        self.unsaved = true;
    }

    fn drop_candidate(&mut self, id: &DriverId) {
        if let Some(socket) = self.discovery.csi_socket(id)
            && self.discovery.empty.remove(id)
        {
            self.discovery.apart.remove(&socket);
            self.watcher
                .unfollow(&socket, &Subject::Candidate(id.clone()));
        }
    }

    /// Without plugins_dir itself, such as a disk that is not mounted, a driver is away but has not
    /// left.
    fn directory_gone(&mut self, id: &DriverId, is_mounted: bool) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        let record = entry.driver.record();
        if !record.is_held() {
            return self.let_go(id);
        }
        // What was done by hand lasts until it is undone by hand.
        if record.withdrawn_by_hand || !is_mounted {
            return;
        }
        if self.discovery.departures.has(id) {
            return;
        }
        let patience = patience(entry.settings.withdraw_after);
        let now = self.now();
        let since = *self.discovery.gone.entry(id.clone()).or_insert_with(|| {
            tracing::warn!(driver = %id, "{id}: its directory is gone; withdrawn unless it is back within {patience:?}");
            now
        });
        self.discovery.departures.set(id, Some(since + patience));
    }

    /// Drivers whose directory went, and that nobody holds any more or nobody waits for.
    pub(super) fn let_go_of_the_departed(&mut self) {
        let now = self.now();
        let departed: Vec<(Moment, DriverId)> = self.discovery.departures.all().cloned().collect();
        for (at, id) in departed {
            let record = self.entries.get(&id).map(|entry| entry.driver.record());
            match record.filter(Record::is_held) {
                // It lasts until it is undone by hand.
                Some(record) if record.withdrawn_by_hand => {
                    self.discovery.stays(&id);
                }
                Some(_) if now < at => {}
                Some(_) | None => self.let_go(&id),
            }
        }
    }

    fn let_go(&mut self, id: &DriverId) {
        tracing::info!(driver = %id, "{id}: its directory is gone, and so is the driver");
        self.dismiss(id);
        self.changed = true;
        self.unsaved = true;
    }
}

/// The drivers that a daemon with these settings would find now, but for those that may hang.
pub(crate) fn found_now(settings: &Settings, reach: &Reach) -> io::Result<Vec<String>> {
    if !settings.discovery.enabled {
        return Ok(Vec::new());
    }
    let named = named(settings);
    if reach.may_hang(&settings.plugins_dir) {
        return Ok(Vec::new());
    }
    let plugins = plugins(&settings.plugins_dir, reach)?
        .unwrap_or_default()
        .into_iter();
    let found = plugins.filter(|id| {
        let socket = settings.plugins_dir.join(&**id).join("csi.sock");
        is_free(settings, &named, id, &socket) && !reach.may_hang(&socket) && is_there(&socket)
    });
    Ok(found.map(|id| id.to_string()).collect())
}

fn named(settings: &Settings) -> HashSet<PathBuf> {
    let tables = settings.drivers.values();
    tables.map(|driver| driver.csi_socket.clone()).collect()
}

/// The configuration leaves this directory to discovery.
fn is_free(settings: &Settings, named: &HashSet<PathBuf>, id: &str, socket: &Path) -> bool {
    !settings.drivers.contains_key(id)
        && !named.contains(socket)
        && !settings.discovery.excludes(id)
        && is_id(id)
}

/// How long a driver that is registered may be without its directory.
fn patience(withdraw_after: Option<Duration>) -> Duration {
    withdraw_after.map_or(GONE_FOR_GOOD, |after| after.min(GONE_FOR_GOOD))
}

fn is_there(socket: &Path) -> bool {
    fs::symlink_metadata(socket).is_ok()
}

/// A shell's `*` passes over hidden names. What would garble a log is no id either.
fn is_id(name: &str) -> bool {
    !name.starts_with('.') && !name.contains(garbles)
}

/// The names of all directories in plugins_dir, if that is there.
fn plugins(directory: &Path, reach: &Reach) -> io::Result<Option<BTreeSet<DriverId>>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        if is_directory(&entry, reach)
            && let Some(name) = entry.file_name().to_str()
        {
            names.insert(name.into());
        }
    }
    Ok(Some(names))
}

/// A link to a directory counts as one, and so does what may hang.
fn is_directory(entry: &DirEntry, reach: &Reach) -> bool {
    reach.may_hang(&entry.path())
        || entry.file_type().is_ok_and(|kind| {
            kind.is_dir()
                || kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|to| to.is_dir())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_gone_for_good_after_five_minutes_or_withdraw_after() {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        assert_eq!(patience(None), minutes(5));
        assert_eq!(patience(Some(minutes(60))), minutes(5));
        assert_eq!(patience(Some(minutes(1))), minutes(1));
    }

    #[test]
    fn only_directories_and_links_to_them_are_plugins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::create_dir(path.join("a")).unwrap();
        fs::write(path.join("file"), "").unwrap();
        std::os::unix::fs::symlink("a", path.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", path.join("dangling")).unwrap();
        let names: Vec<String> = plugins(path, &Reach::default())
            .unwrap()
            .unwrap()
            .iter()
            .map(|id| id.to_string())
            .collect();
        assert_eq!(names, ["a", "link"]);
        assert_eq!(
            plugins(&path.join("missing"), &Reach::default()).unwrap(),
            None
        );
        assert_eq!(
            plugins(&path.join("file"), &Reach::default()).unwrap(),
            None
        );
    }

    #[test]
    fn hidden_names_and_names_that_garble_a_log_are_no_ids() {
        assert!(is_id("nfs.csi.k8s.io") && is_id("a b"));
        assert!(!is_id(".staging") && !is_id("a\nb") && !is_id("a\u{202e}b"));
    }
}
