//! All processes of one node, and their present faults.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bed::scene::KEEP;
use bed::{
    Dice, KubeletProcess, Layout, Mounts, Node, NotifySocket, Registrar, Release, Sentinels,
};
use rustix::process::Rlimit;

use crate::disk::Disk;
use crate::fault::{DRIVERS, Directory, Terms, Which};
use crate::party::Party;
use crate::squatter::Taken;
use crate::{PROGRAM, clock, setup};

/// Files of the runtime directory.
pub(crate) const CONTROL_SOCKET: &str = "control.sock";
pub(crate) const HTTP_SOCKET: &str = "http.sock";
pub(crate) const STATE_FILE: &str = "state.json";
/// Far longer than anything takes, including the resync after 30 s.
pub(crate) const PATIENCE: Duration = Duration::from_secs(100);

/// The node. The registrar ends first, and the directories go last.
pub(crate) struct Scene {
    pub(crate) registrar: Registrar,
    pub(crate) kubelet: KubeletProcess,
    pub(crate) parties: Vec<Party>,
    pub(crate) sentinels: Sentinels,
    pub(crate) squatters: Vec<Taken>,
    pub(crate) covered: Vec<(PathBuf, Directory)>,
    pub(crate) mounts: Option<Mounts>,
    pub(crate) node: Node,
    pub(crate) terms: Terms,
    /// Directories that were deleted, and the sentinels with them.
    pub(crate) bare: BTreeSet<PathBuf>,
    pub(crate) registrar_is_down: bool,
    pub(crate) registrar_is_frozen: bool,
    /// Where the log of the present process begins.
    pub(crate) born: usize,
    /// The present process has too little inotify.
    pub(crate) is_short_of_inotify: bool,
    /// So often it started without its state file.
    pub(crate) oblivious_starts: usize,
    /// A mount hid registry_dir from the present process: sockets that it gave up meanwhile, it could
    /// not remove.
    pub(crate) registry_was_hidden: bool,
    /// The runtime directory was full in this round. A start then fails, and systemd retries.
    pub(crate) run_was_full: bool,
    /// The limit of open files as it was.
    pub(crate) limit: Option<Rlimit>,
    /// Callers that hold a connection and ask nothing.
    pub(crate) callers: Vec<UnixStream>,
    pub(crate) kubelet_is_down: bool,
    /// The kubelet watches a directory that was deleted.
    pub(crate) kubelet_is_blind: bool,
    _notify: Option<NotifySocket>,
}

impl Scene {
    /// Everything runs; no driver is registered yet.
    pub(crate) fn set(dice: &mut Dice) -> Scene {
        let mut mounts = Mounts::private();
        let terms = terms(dice, mounts.is_some());
        let node = Node::with_layout(terms.layout);
        if let Some(mounts) = &mut mounts {
            for disk in Disk::ALL {
                disk.mount(&node, mounts);
            }
            fs::create_dir_all(node.plugins_dir()).unwrap();
            // faketime leaves files there when its process is killed.
            mounts.tmpfs(Path::new("/dev/shm"), 10_000, 16 << 20);
        }
        // One driver has a table, discovery finds the others.
        let setup = setup().on(node).discovery().drivers(&["chaos-0.test"]);
        let node = setup.http().more(KEEP).set().node;
        let release = dice.pick(&Release::ALL);
        let mut scene = Scene {
            _notify: terms
                .looks_often
                .then(|| NotifySocket::bind(notify_socket(&node))),
            registrar: registrar(&node, terms),
            kubelet: KubeletProcess::start(node.eager_kubelet_settings(release)),
            parties: (0..DRIVERS)
                .map(|number| Party::start(&node, number))
                .collect(),
            sentinels: Sentinels::default(),
            squatters: Vec::new(),
            covered: Vec::new(),
            mounts,
            terms,
            bare: BTreeSet::new(),
            registrar_is_down: true,
            registrar_is_frozen: false,
            born: 0,
            is_short_of_inotify: false,
            oblivious_starts: 0,
            registry_was_hidden: false,
            run_was_full: false,
            limit: None,
            callers: Vec::new(),
            kubelet_is_down: false,
            kubelet_is_blind: false,
            node,
        };
        for directory in scene.shared_directories() {
            fs::create_dir_all(&directory).unwrap();
            scene.sentinels.plant(&directory);
        }
        scene.start(None);
        scene.oblivious_starts = 0;
        scene
    }

    /// Directories that hold the registrar's files among foreign ones.
    pub(crate) fn shared_directories(&self) -> Vec<PathBuf> {
        let mut directories = vec![self.node.plugins_registry()];
        if self.terms.layout == Layout::TwoDirectories {
            directories.push(self.node.registry_dir());
        }
        directories
    }

    /// The wall clock of the registrar is off by so much.
    pub(crate) fn set_clock(&self, seconds: i64) {
        clock::set(&self.node, seconds);
    }

    /// Makes room on a disk for a fake that needs it: a kubelet that cannot write does not start.
    pub(crate) fn free(&self, disk: Disk) {
        if let Some(mounts) = &self.mounts {
            disk.free(&self.node, mounts);
        }
    }

    pub(crate) fn restart_kubelet(&mut self, release: Release) {
        self.free(Disk::Kubelet);
        self.kubelet
            .restart_as(self.node.eager_kubelet_settings(release));
        self.kubelet_is_down = false;
        self.kubelet_is_blind = false;
    }

    /// A driver, with room on its disk.
    pub(crate) fn party(&mut self, which: Which) -> &mut Party {
        self.free(Disk::Storage);
        &mut self.parties[which]
    }

    pub(crate) fn link(&self, which: Which) -> PathBuf {
        self.node.link(&self.parties[which].name())
    }

    pub(crate) fn reg_socket(&self, which: Which) -> PathBuf {
        self.node.reg_socket(&self.parties[which].name())
    }

    pub(crate) fn in_runtime_dir(&self, file: &str) -> PathBuf {
        self.node.runtime_dir().join(file)
    }
}

fn terms(dice: &mut Dice, root: bool) -> Terms {
    let layout = dice.pick(&[
        Layout::TwoDirectories,
        Layout::TwoDirectories,
        Layout::OneDirectory,
    ]);
    let there = clock::can_be_set();
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        assert!(root && there, "CI needs root and the package faketime");
    }
    if !root {
        eprintln!("left out, for they take root: mounts, full and read-only disks, no inotify");
    }
    if !there {
        eprintln!("left out, for it takes the package faketime: a clock that steps");
    }
    // Most runs go without it: no daemon in production has this library loaded.
    let clock = dice.below(3) == 0 && there && root;
    Terms {
        layout,
        root,
        clock,
        // Not always: a resync each second repairs what an event should have repaired.
        looks_often: dice.below(2) == 0,
    }
}

fn notify_socket(node: &Node) -> PathBuf {
    node.root().join("notify")
}

/// The registrar behind a script that can start it without inotify, or with its own clock.
fn registrar(node: &Node, terms: Terms) -> Registrar {
    clock::set(node, 0);
    let root = node.root().display();
    let preload = if terms.clock {
        clock::prefix(node)
    } else {
        String::new()
    };
    // The limits below /proc/sys/user are those of the user namespace that writes them.
    let script = format!(
        "set -- {preload}\"$@\"\n\
         limit() {{ exec unshare --user --map-root-user sh -c \"echo $1 >/proc/sys/user/$2 && shift 2 && exec \\\"\\$@\\\"\" sh \"$@\"; }}\n\
         case $(cat {root}/lacks) in\n\
         instances) limit 0 max_inotify_instances \"$@\" ;;\n\
         watches) limit 6 max_inotify_watches \"$@\" ;;\n\
         esac\n\
         exec \"$@\""
    );
    let registrar = Registrar::wrapped(PROGRAM, node, &script);
    if terms.looks_often {
        registrar
            .with_env("NOTIFY_SOCKET", notify_socket(node))
            .with_env("WATCHDOG_USEC", "2000000")
    } else {
        registrar
    }
}
