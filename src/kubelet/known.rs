//! The kubelets that the daemon knows of: those that called, and the sockets of a kubelet that starts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::start_sockets::StartSockets;
use super::watched::{Directory, Watched};
use crate::disk::identity::Identity;
use crate::os::clock::Moment;
use crate::os::process::Process;
use crate::os::task::Task;

/// A kubelet looks at its directory once a second: a kubelet that has not called for longer has handled
/// all that it saw.
const PAUSE: Duration = Duration::from_secs(2);
/// A driver waits no longer for a kubelet that handles other drivers.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The kubelets on this node.
pub(crate) struct KnownKubelets {
    start_sockets: StartSockets,
    /// The start sockets that existed at the last look.
    seen: BTreeMap<PathBuf, Identity>,
    /// Processes that told us how a registration went, each watched for its end.
    running: HashMap<Process, Task>,
    /// Those of them that call NotifyRegistrationStatus on another connection than GetInfo.
    apart: HashSet<Process>,
    /// The last of them to call.
    last: Option<Process>,
    /// The root directory of the kubelet that last called.
    pub(crate) called_in: Option<PathBuf>,
    /// When a kubelet began to tell us how registrations went, and when it last did.
    telling: Option<(Moment, Moment)>,
    directory: PathBuf,
    directory_seen: Option<Directory>,
    /// The directory that the running kubelet watches: the one that existed when it started. Another
    /// directory may be at its path by now, and no kubelet looks at that.
    watched: Option<Directory>,
}

/// The start sockets that exist now.
fn look(start_sockets: &StartSockets) -> BTreeMap<PathBuf, Identity> {
    let sockets = start_sockets.sockets().into_iter();
    let existing = sockets.filter_map(|path| Identity::of(&path).ok().map(|found| (path, found)));
    existing.collect()
}

impl KnownKubelets {
    pub(crate) fn new(root: &Path, directory: &Path) -> KnownKubelets {
        let start_sockets = StartSockets::of(root);
        let directory_seen = Directory::of(directory);
        KnownKubelets {
            seen: look(&start_sockets),
            start_sockets,
            running: HashMap::new(),
            apart: HashSet::new(),
            last: None,
            called_in: None,
            telling: None,
            directory: directory.to_owned(),
            directory_seen,
            watched: directory_seen,
        }
    }

    /// The start sockets are below another root from now on.
    pub(crate) fn look_below(&mut self, root: &Path) {
        self.start_sockets = StartSockets::of(root);
        self.seen = look(&self.start_sockets);
    }

    /// Sockets to watch for a kubelet's start.
    pub(crate) fn start_sockets(&self) -> [PathBuf; 2] {
        self.start_sockets.sockets()
    }

    /// The start sockets as they were at the last look, for the state file.
    pub(crate) fn saved_start_sockets(&self) -> BTreeMap<PathBuf, Identity> {
        self.seen.clone()
    }

    /// A kubelet has started since the start sockets were as in `before`: a socket was created where none
    /// was, or another socket. A change of its owner, mode or label does not count.
    pub(crate) fn started_since(&self, before: &BTreeMap<PathBuf, Identity>) -> bool {
        let is_known = |path: &PathBuf, now: &Identity| {
            let before = before.get(path);
            before.is_some_and(|before| before.is_same_object(now))
        };
        !self.seen.iter().all(|(path, now)| is_known(path, now))
    }

    /// The directory that the kubelet watches, for the state file.
    pub(crate) fn watched(&self) -> Option<Watched> {
        Some(Watched {
            directory: self.watched?,
            by: self.last_caller(),
        })
    }

    /// Takes up what was saved, if it is of a kubelet that still runs: the start sockets were as in
    /// `saved`. Returns that kubelet, if it has a pid.
    pub(crate) fn recall(
        &mut self,
        watched: Watched,
        saved: &BTreeMap<PathBuf, Identity>,
    ) -> Option<Process> {
        let runs = match watched.by {
            Some(kubelet) => kubelet.is_running(),
            None => self.start_sockets.show_a_kubelet() && !self.started_since(saved),
        };
        if !runs {
            return None;
        }
        self.watched = Some(watched.directory);
        watched.by
    }

    /// The kubelet watches a directory that is no longer at its path.
    pub(crate) fn is_blind(&self) -> bool {
        let both = self.watched.zip(self.directory_seen);
        both.is_some_and(|(watched, seen)| watched != seen)
    }

    /// The kubelet that runs, or the next kubelet, watches the directory that exists now.
    pub(crate) fn sees_its_directory(&mut self) {
        self.watched = Directory::of(&self.directory);
    }

    /// A kubelet runs: it listens on its own socket, or a kubelet that called still runs.
    pub(crate) fn any(&self) -> bool {
        self.running.keys().any(|process| process.is_running())
            || self.start_sockets.show_a_kubelet()
    }

    /// The kubelet that last called, while it runs.
    pub(crate) fn last_caller(&self) -> Option<Process> {
        self.last
            .filter(|process| self.running.contains_key(process))
    }

    /// The process with this pid calls NotifyRegistrationStatus on another connection than GetInfo.
    pub(crate) fn calls_apart(&self, pid: u32) -> bool {
        self.apart.iter().any(|process| process.pid == pid)
    }

    pub(crate) fn called_apart(&mut self, process: Option<Process>) {
        self.apart.extend(process);
    }

    /// A kubelet told how a registration went.
    pub(crate) fn told(&mut self, now: Moment) {
        let went_on = self.telling.filter(|(_, last)| now - *last < PAUSE);
        let since = went_on.map_or(now, |(since, _)| since);
        self.telling = Some((since, now));
    }

    /// A kubelet handles many drivers in turn, and a driver that it has not called yet may be next.
    pub(crate) fn is_busy(&self, now: Moment) -> bool {
        self.telling
            .is_some_and(|(since, last)| now - last < PAUSE && now - since < LONGEST_WAIT)
    }

    /// A process called. `watch` is called for a process that is new.
    pub(crate) fn called(&mut self, process: Process, watch: impl FnOnce() -> Task) {
        self.last = Some(process);
        self.running.entry(process).or_insert_with(watch);
    }

    pub(crate) fn ended(&mut self, process: Process) {
        self.running.remove(&process);
        self.apart.remove(&process);
        self.sees_its_directory();
    }

    /// Looks at the start sockets: whether a kubelet has started since the last look.
    pub(crate) fn has_started(&mut self) -> bool {
        let now = look(&self.start_sockets);
        let before = std::mem::replace(&mut self.seen, now);
        let started = self.started_since(&before);
        if started {
            self.sees_its_directory();
        }
        started
    }

    /// Looks at the kubelet's directory: whether it is another directory than at the last look. A
    /// directory that is missing for a while and comes back is another directory, too.
    pub(crate) fn directory_was_replaced(&mut self) -> bool {
        let Some(now) = Directory::of(&self.directory) else {
            return false;
        };
        let before = self.directory_seen.or(self.watched);
        let replaced = before.is_some_and(|before| before != now);
        self.directory_seen = Some(now);
        self.watched = self.watched.or(Some(now));
        replaced
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_socket_made_anew_is_a_sign_and_one_that_was_touched_is_none() {
        let root = tempfile::tempdir().unwrap();
        let socket = root.path().join("pod-resources/kubelet.sock");
        fs::create_dir(socket.parent().unwrap()).unwrap();
        fs::write(&socket, "").unwrap();
        let mut kubelets = KnownKubelets::new(root.path(), root.path());
        let saved = kubelets.saved_start_sockets();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!kubelets.has_started());
        assert!(!kubelets.started_since(&saved));
        fs::remove_file(&socket).unwrap();
        assert!(!kubelets.has_started(), "an end is no start");
        fs::write(&socket, "").unwrap();
        assert!(kubelets.has_started());
        assert!(kubelets.started_since(&saved));
    }

    #[test]
    fn a_directory_that_is_replaced_is_unseen_until_a_kubelet_shows_otherwise() {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("plugins_registry");
        let make = || fs::create_dir(&directory).unwrap();
        make();
        let mut kubelets = KnownKubelets::new(root.path(), &directory);
        assert!(!kubelets.directory_was_replaced() && !kubelets.is_blind());
        let me = Process::of(std::process::id()).unwrap();
        let watched = Watched {
            by: Some(me),
            ..kubelets.watched().unwrap()
        };
        // The inode of the old one is not given to the new one.
        fs::rename(&directory, root.path().join("old")).unwrap();
        assert!(!kubelets.directory_was_replaced(), "none is there yet");
        make();
        assert!(kubelets.directory_was_replaced() && kubelets.is_blind());
        kubelets.sees_its_directory();
        assert!(!kubelets.is_blind());

        let saved = BTreeMap::new();
        let mut next = KnownKubelets::new(root.path(), &directory);
        assert_eq!(next.recall(watched, &saved), Some(me));
        assert!(next.is_blind());
        let ended = Process {
            started: me.started + 1,
            ..me
        };
        for by in [Some(ended), None] {
            let mut next = KnownKubelets::new(root.path(), &directory);
            assert_eq!(next.recall(Watched { by, ..watched }, &saved), None);
            assert!(!next.is_blind());
        }
    }

    #[test]
    fn a_kubelet_is_busy_while_it_tells_without_a_pause_and_not_for_ever() {
        let mut kubelets = KnownKubelets::new(Path::new("/nowhere"), Path::new("/nowhere"));
        let at = |seconds: u64| Moment(seconds * 1000);
        assert!(!kubelets.is_busy(at(0)));
        kubelets.told(at(10));
        assert!(kubelets.is_busy(at(11)) && !kubelets.is_busy(at(12)));
        for second in 20..=90 {
            kubelets.told(at(second));
            assert_eq!(kubelets.is_busy(at(second)), second < 80);
        }
        kubelets.told(at(100));
        assert!(kubelets.is_busy(at(101)));
    }
}
