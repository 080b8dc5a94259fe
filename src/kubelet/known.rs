//! The kubelets that we know of: those that spoke to us, and the signs of one that starts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::start_sockets::StartSockets;
use super::watched::{Directory, Watched};
use crate::disk::identity::Identity;
use crate::os::clock::Moment;
use crate::os::process::Process;
use crate::os::task::Task;

/// A kubelet looks at its directory once a second: when it has said nothing for longer, it has
/// been through with what it saw.
const PAUSE: Duration = Duration::from_secs(2);
/// Nobody waits for a kubelet to be through with others for longer.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// What is known of kubelets on this node.
pub(crate) struct KnownKubelets {
    signs: StartSockets,
    /// When they were last looked at.
    seen: SocketsSeen,
    /// Processes that told us how a registration went, each watched for its end.
    running: HashMap<Process, Task>,
    /// Those of them that tell on another connection than they asked on.
    apart: HashSet<Process>,
    /// The last to speak.
    last: Option<Process>,
    /// When one began to tell us how registrations went, and when it last did.
    telling: Option<(Moment, Moment)>,
    /// A kubelet has called whose process we cannot see, nor will its start be seen, and which may
    /// ignore links when it starts.
    unseen: bool,
    no_hard_links: bool,
    directory: PathBuf,
    directory_seen: Option<Directory>,
    /// The directory that the kubelet watches which runs now, if one does: that one which was there
    /// when it started. It may be another one by now, and no kubelet looks at that.
    watched: Option<Directory>,
}

/// What was at each of the signs' sockets.
type SocketsSeen = Vec<(PathBuf, Option<Identity>)>;

/// A socket was made where none was, or another one. A change of its owner, mode or label is none.
fn is_new(before: Option<&Identity>, now: Option<&Identity>) -> bool {
    now.is_some_and(|now| !before.is_some_and(|before| before.is_same_object(now)))
}

fn look(root: &Path) -> (StartSockets, SocketsSeen) {
    let signs = StartSockets::of(root);
    let sockets = signs.sockets().into_iter();
    let seen = sockets.map(|path| (path.clone(), Identity::of(&path).ok()));
    let seen = seen.collect();
    (signs, seen)
}

impl KnownKubelets {
    pub(crate) fn new(root: &Path, directory: &Path) -> KnownKubelets {
        let (signs, seen) = look(root);
        let directory_seen = Directory::of(directory);
        KnownKubelets {
            signs,
            seen,
            running: HashMap::new(),
            apart: HashSet::new(),
            last: None,
            telling: None,
            unseen: false,
            no_hard_links: false,
            directory: directory.to_owned(),
            directory_seen,
            watched: directory_seen,
        }
    }

    /// The signs are below another root from now on.
    pub(crate) fn look_below(&mut self, root: &Path) {
        (self.signs, self.seen) = look(root);
    }

    /// Sockets to watch for a kubelet's start.
    pub(crate) fn signs(&self) -> Vec<PathBuf> {
        self.seen.iter().map(|(path, _)| path.clone()).collect()
    }

    /// The signs as they were at the last look, to be written down.
    pub(crate) fn marks(&self) -> BTreeMap<PathBuf, Identity> {
        let there = |(path, seen): &(PathBuf, Option<Identity>)| {
            seen.clone().map(|identity| (path.clone(), identity))
        };
        self.seen.iter().filter_map(there).collect()
    }

    /// A kubelet has started since the signs were as in `marks`.
    pub(crate) fn started_since(&self, marks: &BTreeMap<PathBuf, Identity>) -> bool {
        let new =
            |(path, seen): &(PathBuf, Option<Identity>)| is_new(marks.get(path), seen.as_ref());
        self.seen.iter().any(new)
    }

    /// The directory that the kubelet watches, to be written down.
    pub(crate) fn watched(&self) -> Option<Watched> {
        let running = |last: &Process| self.running.contains_key(last);
        Some(Watched {
            directory: self.watched?,
            by: self.last.filter(running),
        })
    }

    /// Takes up what was written down, if it is of a kubelet that still runs: the signs were as in
    /// `marks`. Returns that kubelet, if it has a pid.
    pub(crate) fn recall(
        &mut self,
        watched: Watched,
        marks: &BTreeMap<PathBuf, Identity>,
    ) -> Option<Process> {
        let runs = match watched.by {
            Some(kubelet) => kubelet.is_running(),
            None => self.signs.show_a_kubelet() && !self.started_since(marks),
        };
        if !runs {
            return None;
        }
        self.watched = Some(watched.directory);
        watched.by
    }

    /// The kubelet watches a directory that is no longer the one at its path.
    pub(crate) fn is_blind(&self) -> bool {
        let both = self.watched.zip(self.directory_seen);
        both.is_some_and(|(watched, seen)| watched != seen)
    }

    /// The kubelet that runs, or the next one, has the directory that is there now.
    pub(crate) fn sees_its_directory(&mut self) {
        self.watched = Directory::of(&self.directory);
    }

    /// A kubelet is there: it listens on its own socket, or one that spoke to us still runs.
    pub(crate) fn any(&self) -> bool {
        self.running.keys().any(|process| process.is_running()) || self.signs.show_a_kubelet()
    }

    /// The one that last spoke to us, while it runs.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.last
            .filter(|process| self.running.contains_key(process))
            .map(|process| process.pid)
    }

    /// The process with this pid tells how a registration went on another connection than it asked on.
    pub(crate) fn speak_apart(&self, pid: u32) -> bool {
        self.apart.iter().any(|process| process.pid == pid)
    }

    pub(crate) fn spoke_apart(&mut self, process: Option<Process>) {
        self.apart.extend(process);
    }

    /// No restart of the kubelet will be seen from here, and it may ignore links when it starts.
    pub(crate) fn are_unseen(&self) -> bool {
        self.unseen
    }

    /// The kubelet is to find a socket in the place of a link.
    pub(crate) fn want_sockets(&self) -> bool {
        self.unseen && !self.no_hard_links
    }

    /// The file system does not let a socket have a second name.
    pub(crate) fn cannot_have_sockets(&mut self) {
        self.no_hard_links = true;
    }

    /// A kubelet that we have no pid for, and that may ignore links when it starts, was there. Tells
    /// whether that is new, and nothing else would show its next start.
    pub(crate) fn went_unseen(&mut self) -> bool {
        let shows = self.seen.iter().any(|(_, seen)| seen.is_some());
        !shows && !std::mem::replace(&mut self.unseen, true)
    }

    /// A kubelet told how a registration went.
    pub(crate) fn told(&mut self, now: Moment) {
        let went_on = self.telling.filter(|(_, last)| now - *last < PAUSE);
        let since = went_on.map_or(now, |(since, _)| since);
        self.telling = Some((since, now));
    }

    /// A kubelet goes through many drivers, and one that it has not called yet may be next.
    pub(crate) fn is_busy(&self, now: Moment) -> bool {
        self.telling
            .is_some_and(|(since, last)| now - last < PAUSE && now - since < LONGEST_WAIT)
    }

    /// A process spoke to us. `watch` is called for one that is new.
    pub(crate) fn spoke(&mut self, process: Process, watch: impl FnOnce() -> Task) {
        self.last = Some(process);
        self.running.entry(process).or_insert_with(watch);
    }

    pub(crate) fn ended(&mut self, process: Process) {
        self.running.remove(&process);
        self.apart.remove(&process);
        self.sees_its_directory();
    }

    /// Looks at the signs: whether a kubelet has started since the last look.
    pub(crate) fn has_started(&mut self) -> bool {
        let mut started = false;
        for (path, seen) in &mut self.seen {
            let now = Identity::of(path).ok();
            started |= is_new(seen.as_ref(), now.as_ref());
            *seen = now;
        }
        if started {
            self.sees_its_directory();
        }
        started
    }

    /// Looks at the kubelet's directory: whether it is another one than at the last look. One that
    /// is missing for a while and comes back is another one, too.
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
        let marks = kubelets.marks();
        fs::set_permissions(&socket, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(!kubelets.has_started());
        assert!(!kubelets.started_since(&marks));
        fs::remove_file(&socket).unwrap();
        assert!(!kubelets.has_started(), "an end is no start");
        fs::write(&socket, "").unwrap();
        assert!(kubelets.has_started());
        assert!(kubelets.started_since(&marks));
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

        let marks = BTreeMap::new();
        let mut next = KnownKubelets::new(root.path(), &directory);
        assert_eq!(next.recall(watched, &marks), Some(me));
        assert!(next.is_blind());
        let ended = Process {
            started: me.started + 1,
            ..me
        };
        for by in [Some(ended), None] {
            let mut next = KnownKubelets::new(root.path(), &directory);
            assert_eq!(next.recall(Watched { by, ..watched }, &marks), None);
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
