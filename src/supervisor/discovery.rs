//! Discovery while the daemon runs: directories in plugins_dir that become a driver.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::saved_state::Origin;
use super::{DriverId, Input, Runner, RunnerKey, Subject, Supervisor, Timer, send};
use crate::config::csi_socket;
use crate::csi::discover::{Discoverable, IdleDirectory, exists, plugins};
use crate::disk::directory;
use crate::os::clock::Moment;
use crate::os::task::Task;
use crate::os::text::enumerated;

/// How long a look in another thread may take before the next look is tried.
const PATIENCE: Duration = Duration::from_secs(5);

/// Directories that the note names; the others are counted.
const MOST_NAMED: usize = 5;
/// What to do about a directory without a csi.sock.
pub(crate) const IDLE_FIX: &str =
    "start its driver, or remove the directory, or add its name to discovery.exclude";

/// What is known of plugins_dir beside the drivers that were discovered there.
#[derive(Default)]
pub(super) struct Discovery {
    /// The directory that is watched, while discovery is on.
    pub(super) directory: Option<PathBuf>,
    /// The ids that discovery may use by the settings.
    discoverable: Discoverable,
    /// Directories without a csi.sock so far.
    candidates: BTreeMap<DriverId, Candidate>,
    /// What is wrong with the directory, in words.
    trouble: Option<String>,
    /// Since when a look at a directory that may hang has not ended.
    looked_since: Option<Moment>,
    /// Looks of other threads, at paths that may hang: the look that runs, and the next look for
    /// changes since then.
    apart: HashMap<PathBuf, [Option<Task>; 2]>,
}

/// A directory without a csi.sock.
enum Candidate {
    /// It may hang, and no look at it has ended since then.
    Unseen(Moment),
    Idle(IdleDirectory),
}

/// What another thread saw in a directory that may hang.
pub(super) enum CandidateSeen {
    Driver,
    Idle(IdleDirectory),
}

impl Discovery {
    fn csi_socket(&self, id: &str) -> Option<PathBuf> {
        Some(csi_socket(self.directory.as_ref()?, id))
    }

    /// The ids that discovery may use by the settings.
    pub(super) fn discoverable(&self) -> &Discoverable {
        &self.discoverable
    }

    /// How many directories have no csi.sock.
    pub(super) fn idle_count(&self) -> u32 {
        u32::try_from(self.idle().count()).unwrap_or(u32::MAX)
    }

    /// The directories that have no csi.sock, in a few words.
    pub(super) fn idle_line(&self) -> Option<String> {
        let first = self.idle().next()?;
        Some(match self.idle_count() {
            1 => format!("no csi.sock in {first}"),
            more => format!("no csi.sock in {first} and {} more directories", more - 1),
        })
    }

    /// The note for the status.
    pub(super) fn idle_note(&self) -> Option<String> {
        let idle: Vec<&IdleDirectory> = self.idle().collect();
        let directories = match idle.len() > MOST_NAMED {
            true => " directories",
            false => "",
        };
        let named = enumerated(idle.iter(), MOST_NAMED);
        (!idle.is_empty()).then(|| format!("no csi.sock in {named}{directories}: {IDLE_FIX}"))
    }

    fn idle(&self) -> impl Iterator<Item = &IdleDirectory> {
        self.candidates.values().filter_map(|seen| match seen {
            Candidate::Idle(idle) => Some(idle),
            Candidate::Unseen(_) => None,
        })
    }

    /// The note about a directory that cannot be read, or that does not answer.
    pub(super) fn trouble(&self, now: Moment) -> Option<String> {
        let directory = self.directory.as_deref()?;
        let is_late = |since: &Moment| now - *since > PATIENCE;
        if self.looked_since.as_ref().is_some_and(is_late) {
            let directory = directory.display();
            return Some(format!(
                "plugins_dir: the file system of {directory} does not answer, so that discovery finds no driver there"
            ));
        }
        let unseen = |(id, seen): (&DriverId, &Candidate)| match seen {
            Candidate::Unseen(since) if is_late(since) => Some(directory.join(&**id)),
            Candidate::Unseen(_) | Candidate::Idle(_) => None,
        };
        let unseen = self.candidates.iter().find_map(unseen);
        let unseen = unseen.map(|path| {
            format!(
                "plugins_dir: the file system of {} does not answer, so that discovery cannot look for a driver there",
                path.display()
            )
        });
        self.trouble.clone().or(unseen)
    }
}

impl Supervisor {
    /// Starts to watch plugins_dir as the settings have it now, or stops.
    pub(super) fn watch_plugins(&mut self) {
        let before = std::mem::take(&mut self.discovery);
        if let Some(old) = &before.directory {
            for id in before.candidates.into_keys() {
                let socket = csi_socket(old, &id);
                self.watcher.unfollow(&socket, &Subject::Candidate(id));
            }
            self.watcher.unfollow_children(old, &Subject::Plugins);
        }
        let is_enabled = self.settings.discovery.enabled;
        let directory = is_enabled.then(|| self.settings.plugins_dir.clone());
        for (key, runner) in &mut self.runners {
            let Some(departure) = &runner.departure else {
                continue;
            };
            if !departure.is_of_directory() {
                continue;
            }
            self.timers.set(Timer::Departure(*key), None);
            // A reload changes nothing about how long they have been gone.
            if before.directory != directory {
                runner.departure = None;
            }
        }
        if let Some(directory) = &directory {
            self.watcher.follow_children(directory, &Subject::Plugins);
        }
        self.discovery.directory = directory;
        self.discovery.discoverable = Discoverable::of(&self.settings);
    }

    /// A directory of this name is a driver when it has a csi.sock.
    pub(super) fn discovers(&self, id: &str) -> bool {
        self.discovery.discoverable.has(&self.settings, id)
    }

    /// Discovery would find the driver now. A path that may hang counts as existing until it has been
    /// looked at.
    pub(super) fn has_plugin(&self, id: &str) -> bool {
        let is_there = |socket: PathBuf| self.reach.may_hang(&socket) || exists(&socket);
        self.discovers(id) && self.discovery.csi_socket(id).is_some_and(is_there)
    }

    /// Looks at plugins_dir. The only place that reads a directory while the daemon runs: for an event
    /// in plugins_dir itself, and at the resync.
    pub(super) fn look_at_plugins(&mut self) {
        let now = self.now();
        let Some(directory) = self.discovery.directory.clone() else {
            return;
        };
        if self.reach.may_hang(&directory) {
            self.discovery.looked_since.get_or_insert(now);
            let (reach, path) = (self.reach.clone(), directory.clone());
            self.look_apart(&directory, move || {
                let seen = plugins(&path, &reach);
                Some(Input::Plugins(path, seen))
            });
        } else {
            self.plugins_seen(&directory, plugins(&directory, &self.reach));
        }
    }

    /// Looks in another thread, which sends what it saw.
    fn look_apart(&mut self, path: &Path, look: impl FnOnce() -> Option<Input> + Send + 'static) {
        let looks = self.discovery.apart.entry(path.to_owned()).or_default();
        let is_free = |look: &&mut Option<Task>| look.as_ref().is_none_or(Task::is_finished);
        let Some(place) = looks.iter_mut().find(is_free) else {
            return;
        };
        let (reach, sender, path) = (self.reach.clone(), self.sender.clone(), path.to_owned());
        // A mount is looked at by one thread at a time: this look begins when the look before it ends.
        *place = Some(Task::spawn(async move {
            if let Ok(Some(input)) = reach.look(&path, PATIENCE, look).await {
                send(&sender, input);
            }
        }));
    }

    /// Compares what is in plugins_dir with what is known. A reload may have changed plugins_dir since
    /// the look.
    pub(super) fn plugins_seen(
        &mut self,
        directory: &Path,
        seen: io::Result<Option<BTreeSet<DriverId>>>,
    ) {
        if self.discovery.directory.as_deref() != Some(directory) {
            return;
        }
        self.discovery.looked_since = None;
        let shown = directory.display();
        let there = match seen {
            Ok(there) => there,
            Err(error) => {
                let trouble = format!("plugins_dir: cannot look for drivers in {shown}: {error}");
                if self.discovery.trouble.as_ref() != Some(&trouble) {
                    tracing::warn!(%error, directory = %shown, "cannot look for drivers in plugins_dir");
                }
                self.discovery.trouble = Some(trouble);
                return;
            }
        };
        let exists = there.is_some();
        self.discovery.trouble = (!exists).then(|| {
            // The main loop does not wait for a file system that another machine or program serves.
            let may_look = !self.reach.may_hang(directory);
            let words = may_look.then(|| directory::missing_words(directory)).flatten();
            let words = words.unwrap_or_else(|| format!("{shown} is missing"));
            format!(
                "plugins_dir: {words}, so that discovery finds no driver: create it, or mount its file system, or set discovery.enabled = false"
            )
        });
        let mut there = there.unwrap_or_default();
        let candidates = self.discovery.candidates.keys();
        let emptied = candidates.filter(|id| !there.contains(*id)).cloned();
        let emptied: Vec<DriverId> = emptied.collect();
        for id in emptied {
            self.drop_candidate(&id);
        }
        let is_gone =
            |runner: &Runner| runner.origin == Origin::Discovery && !there.contains(&runner.id);
        for key in self.keys_where(is_gone) {
            self.directory_gone(key, exists);
        }
        there.retain(|id| self.discovers(id));
        let runners = self.runners.iter();
        let keys: HashMap<DriverId, RunnerKey> = runners
            .map(|(key, runner)| (runner.id.clone(), *key))
            .collect();
        for id in there {
            match keys.get(&id) {
                Some(key) => self.directory_stays(*key),
                None => self.look_at_candidate(&id),
            }
        }
    }

    /// Looks whether a directory has become a driver's.
    pub(super) fn look_at_candidate(&mut self, id: &DriverId) {
        let Some(socket) = self.discovery.csi_socket(id) else {
            return;
        };
        let (may_hang, now) = (self.reach.may_hang(&socket), self.now());
        if may_hang || !exists(&socket) {
            let candidates = &mut self.discovery.candidates;
            let is_new = !candidates.contains_key(id);
            let seen = candidates
                .entry(id.clone())
                .or_insert(Candidate::Unseen(now));
            let plugin = directory::of(&socket);
            let is_as_before = matches!(seen, Candidate::Idle(idle) if idle.is_as_before(plugin));
            if !may_hang && !is_as_before {
                *seen = Candidate::Idle(IdleDirectory::look(plugin));
            }
            if is_new {
                self.watcher
                    .follow(&socket, &Subject::Candidate(id.clone()));
            }
        }
        if may_hang {
            let (id, path) = (id.clone(), socket.clone());
            self.look_apart(&socket, move || {
                let seen = if exists(&path) {
                    CandidateSeen::Driver
                } else {
                    CandidateSeen::Idle(IdleDirectory::look(directory::of(&path)))
                };
                Some(Input::Candidate(id, path, seen))
            });
        } else if exists(&socket) {
            // A second look, because what happened between the first and the watch would go unseen.
            self.driver_found(id, &socket);
        }
    }

    /// Another thread has seen whether a directory has become a driver's.
    pub(super) fn candidate_seen(&mut self, id: &DriverId, socket: &Path, seen: CandidateSeen) {
        if self.discovery.csi_socket(id).as_deref() != Some(socket) {
            return;
        }
        let Some(candidate) = self.discovery.candidates.get_mut(id) else {
            return;
        };
        match seen {
            CandidateSeen::Driver => self.driver_found(id, socket),
            CandidateSeen::Idle(idle) => *candidate = Candidate::Idle(idle),
        }
    }

    fn driver_found(&mut self, id: &DriverId, socket: &Path) {
        tracing::info!(driver = %id, csi_socket = %socket.display(), "{id}: found");
        self.add(id, None);
        self.drop_candidate(id);
        self.state_file.changed();
    }

    fn drop_candidate(&mut self, id: &DriverId) {
        if let Some(socket) = self.discovery.csi_socket(id)
            && self.discovery.candidates.remove(id).is_some()
        {
            self.discovery.apart.remove(&socket);
            self.watcher
                .unfollow(&socket, &Subject::Candidate(id.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_does_not_answer_is_named_when_it_has_been_waited_for() {
        let at = |seconds| Moment::default() + Duration::from_secs(seconds);
        let mut discovery = Discovery {
            directory: Some("/p".into()),
            candidates: BTreeMap::from([("a".into(), Candidate::Unseen(at(0)))]),
            ..Discovery::default()
        };
        assert_eq!(discovery.trouble(at(5)), None);
        let hung = discovery.trouble(at(6)).unwrap();
        assert!(
            hung.contains("the file system of /p/a does not answer"),
            "{hung}"
        );
        discovery.looked_since = Some(at(6));
        assert!(discovery.trouble(at(12)).unwrap().contains(" of /p does"));
        discovery.directory = None;
        assert_eq!(discovery.trouble(at(12)), None);
    }
}
