//! The kubelets that we know of: those that spoke to us, and the signs of one that starts.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use std::os::unix::fs::MetadataExt;

use crate::identity::Identity;
use crate::kubelet::{Process, Signs};
use crate::task::Task;

/// What is known of kubelets on this node.
pub(crate) struct Kubelets {
    signs: Signs,
    /// What was at each of the signs' sockets when it was last looked at.
    seen: Vec<(PathBuf, Option<Identity>)>,
    /// Processes that told us how a registration went, each watched for its end.
    running: HashMap<Process, Task>,
    /// The last to speak.
    last: Option<Process>,
    directory: PathBuf,
    directory_seen: Option<Directory>,
}

/// A directory, told apart from one made anew under its name. Its change time moves with each
/// entry, so its birth stands in for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Directory {
    device: u64,
    inode: u64,
    born: Option<SystemTime>,
}

impl Kubelets {
    pub(crate) fn new(root: &Path, directory: &Path) -> Kubelets {
        let signs = Signs::of(root);
        let seen = signs
            .sockets()
            .into_iter()
            .map(|path| (path.clone(), Identity::of(&path).ok()))
            .collect();
        Kubelets {
            signs,
            seen,
            running: HashMap::new(),
            last: None,
            directory: directory.to_owned(),
            directory_seen: Directory::of(directory),
        }
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
        let new = |(path, seen): &(PathBuf, Option<Identity>)| {
            seen.is_some() && seen.as_ref() != marks.get(path)
        };
        self.seen.iter().any(new)
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

    /// A process spoke to us. `watch` is called for one that is new.
    pub(crate) fn spoke(&mut self, process: Process, watch: impl FnOnce() -> Task) {
        self.last = Some(process);
        self.running.entry(process).or_insert_with(watch);
    }

    pub(crate) fn ended(&mut self, process: Process) {
        self.running.remove(&process);
    }

    /// Looks at the signs: whether a kubelet has started since the last look.
    pub(crate) fn has_started(&mut self) -> bool {
        let mut started = false;
        for (path, seen) in &mut self.seen {
            let now = Identity::of(path).ok();
            started |= now.is_some() && now != *seen;
            *seen = now;
        }
        started
    }

    /// Looks at the kubelet's directory: whether it is another one than at the last look. One that
    /// is missing for a while and comes back is another one, too.
    pub(crate) fn directory_was_replaced(&mut self) -> bool {
        let Some(now) = Directory::of(&self.directory) else {
            return false;
        };
        let replaced = self.directory_seen.is_some_and(|seen| seen != now);
        self.directory_seen = Some(now);
        replaced
    }
}

impl Directory {
    fn of(path: &Path) -> Option<Directory> {
        let metadata = fs::metadata(path).ok()?;
        Some(Directory {
            device: metadata.dev(),
            inode: metadata.ino(),
            born: metadata.created().ok(),
        })
    }
}
