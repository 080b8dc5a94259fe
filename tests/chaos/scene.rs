//! All parties of one node, and what is wrong with them at the moment.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bed::registrar::chosen;
use bed::{
    Dice, KubeletProcess, Layout, Mounts, Node, Registrar, Release, Sentinels, Settings, Timing,
    eventually, script,
};
use nix::sys::signal::Signal;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::disk::Disk;
use crate::fault::{DRIVERS, Directory, Scarce, Terms, Which};
use crate::party::Party;
use crate::squatter::Taken;

const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
/// Sets the wall clock of the process that it is loaded into, from the Debian package faketime.
const CLOCK: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";
/// Far more than anything takes; the slow look at everything, after 30 s, included.
pub(crate) const SOON: Duration = Duration::from_secs(100);

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
    /// registry_dir was mounted over in this life of the registrar: what it gave up meanwhile, it
    /// could not remove.
    pub(crate) registry_was_hidden: bool,
    /// The runtime directory was full in this round. A start then fails, and systemd tries again.
    pub(crate) run_was_full: bool,
    /// The limit of open files as it was.
    pub(crate) limit: Option<Rlimit>,
    pub(crate) kubelet_is_down: bool,
    /// It watches a directory that was deleted.
    pub(crate) kubelet_is_blind: bool,
}

impl Scene {
    /// Everybody runs; nobody is registered yet.
    pub(crate) fn set(dice: &mut Dice) -> Scene {
        let mut mounts = Mounts::private();
        let terms = terms(dice, mounts.is_some());
        let node = Node::with_layout(terms.layout);
        if let Some(mounts) = &mut mounts {
            for disk in Disk::ALL {
                disk.mount(&node, mounts);
            }
            fs::create_dir_all(node.plugins_dir()).unwrap();
            // The clock's library leaves files there when its process is killed.
            mounts.tmpfs(Path::new("/dev/shm"), 10_000, 16 << 20);
        }
        configure(&node);
        let release = dice.pick(&Release::ALL);
        let mut scene = Scene {
            registrar: registrar(&node, terms.clock),
            kubelet: KubeletProcess::start(settings(&node, release)),
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
            registry_was_hidden: false,
            run_was_full: false,
            limit: None,
            kubelet_is_down: false,
            kubelet_is_blind: false,
            node,
        };
        for directory in scene.shared_directories() {
            fs::create_dir_all(&directory).unwrap();
            scene.sentinels.plant(&directory);
        }
        scene.start(None);
        scene
    }

    /// Directories that hold files of ours among those of others.
    pub(crate) fn shared_directories(&self) -> Vec<PathBuf> {
        let mut directories = vec![self.node.kubelet_registry_dir()];
        if self.terms.layout == Layout::TwoDirectories {
            directories.push(self.node.registry_dir());
        }
        directories
    }

    /// Starts the registrar, with too little of something or with all that it needs.
    pub(crate) fn start(&mut self, scarce: Option<Scarce>) {
        let lacks = match scarce {
            Some(Scarce::Instances) => "instances",
            Some(Scarce::Watches) => "watches",
            None => "nothing",
        };
        fs::write(self.node.root().join("lacks"), lacks).unwrap();
        self.registrar.start();
        self.registrar_is_down = false;
        // It sweeps what it sees.
        let hidden = |(_, directory): &(PathBuf, Directory)| *directory == Directory::Registry;
        self.registry_was_hidden = self.covered.iter().any(hidden);
    }

    /// `kill -9`, whatever it was doing.
    pub(crate) fn kill(&mut self) {
        if !self.registrar_is_down {
            self.registrar.signal(Signal::SIGKILL);
            self.reap();
        }
        self.registrar_is_down = true;
        self.registrar_is_frozen = false;
        self.limit = None;
    }

    /// Its end, which must be the test's doing or explained by a fault.
    pub(crate) fn reap(&mut self) {
        let end = self.registrar.wait_exit(SOON);
        let explained = end.signal() == Some(9) || self.run_was_full && end.code() == Some(1);
        assert!(explained, "the registrar ended by itself: {end}");
    }

    /// What systemd does (Restart=always).
    pub(crate) fn start_if_ended(&mut self) {
        if !self.registrar_is_down && !self.registrar.is_running() {
            self.reap();
            self.start(None);
        }
    }

    /// An end in good order that leaves the drivers registered.
    pub(crate) fn stop(&mut self) {
        self.thaw();
        if !self.registrar_is_down {
            self.registrar.stop();
        }
        self.registrar_is_down = true;
        self.limit = None;
    }

    pub(crate) fn freeze(&mut self) {
        if self.registrar_is_down || self.registrar_is_frozen {
            return;
        }
        self.registrar.signal(Signal::SIGSTOP);
        let stat = format!("/proc/{}/stat", self.registrar.pid());
        eventually("the registrar is stopped", SOON, || {
            fs::read_to_string(&stat).unwrap().contains(") T ")
        });
        self.registrar_is_frozen = true;
    }

    pub(crate) fn thaw(&mut self) {
        if std::mem::take(&mut self.registrar_is_frozen) {
            self.registrar.signal(Signal::SIGCONT);
        }
    }

    /// Does something that the registrar sees only when it is over.
    pub(crate) fn unseen<T>(&mut self, act: impl FnOnce(&mut Scene) -> T) -> T {
        let frozen = self.registrar_is_frozen;
        self.freeze();
        let done = act(self);
        if !frozen {
            self.thaw();
        }
        done
    }

    /// It is up, and neither stopped nor still on its way.
    pub(crate) fn registrar_answers(&self) -> bool {
        !self.registrar_is_down && !self.registrar_is_frozen && self.registrar.status().is_some()
    }

    /// Leaves room for so many more open files.
    pub(crate) fn limit_descriptors(&mut self, more: u64) {
        let open = u64::try_from(self.registrar.fd_count()).unwrap();
        let before = self.set_limit(Rlimit {
            current: Some(open + more),
            maximum: None,
        });
        self.limit.get_or_insert(before);
    }

    /// The maximum stays as it is: without root it could not be raised again.
    pub(crate) fn set_limit(&self, mut limit: Rlimit) -> Rlimit {
        let pid = Pid::from_raw(self.registrar.pid().cast_signed());
        let now = rustix::process::getrlimit(Resource::Nofile);
        limit.maximum = now.maximum;
        prlimit(pid, Resource::Nofile, limit).unwrap()
    }

    /// The wall clock of the registrar is off by so much.
    pub(crate) fn set_clock(&self, seconds: i64) {
        set_clock(&self.node, seconds);
    }

    /// Room on a disk, for a fake that needs it: a kubelet that cannot write does not start.
    pub(crate) fn free(&self, disk: Disk) {
        if let Some(mounts) = &self.mounts {
            disk.free(&self.node, mounts);
        }
    }

    pub(crate) fn restart_kubelet(&mut self, release: Release) {
        self.free(Disk::Kubelet);
        self.kubelet.restart_as(settings(&self.node, release));
        self.kubelet_is_down = false;
        self.kubelet_is_blind = false;
    }

    /// A driver, with room on its disk for what it may do.
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
}

fn terms(dice: &mut Dice, root: bool) -> Terms {
    let layout = dice.pick(&[
        Layout::TwoDirectories,
        Layout::TwoDirectories,
        Layout::OneDirectory,
    ]);
    let there = Path::new(CLOCK).exists();
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        assert!(root && there, "CI needs root and the package faketime");
    }
    if !root {
        eprintln!("left out, for they take root: mounts, full and read-only disks, no inotify");
    }
    if !there {
        eprintln!("left out, for it takes the package faketime: a clock that steps");
    }
    // Most runs without it: it is a library in the daemon that nobody has in life.
    let clock = dice.below(3) == 0 && there && root;
    Terms {
        layout,
        root,
        clock,
    }
}

/// A kubelet ten times as fast as in life, which tries again after a second at the latest.
fn settings(node: &Node, release: Release) -> Settings {
    Settings::new(node.kubelet_root(), release).with_timing(Timing {
        backoff_max: Duration::from_secs(1),
        ..Timing::faster(10)
    })
}

/// One driver has a table, the others are found.
fn configure(node: &Node) {
    let more = format!(
        "[service]\non_stop = \"keep\"\n[discovery]\nenabled = true\n[http]\nlisten = \"unix:{}\"\n",
        node.runtime_dir().join("http.sock").display()
    );
    node.write_default_config(&["chaos-0.test"], &more);
}

/// Behind a script that lets it start without inotify, and with a clock of its own.
fn registrar(node: &Node, clock: bool) -> Registrar {
    set_clock(node, 0);
    let root = node.root().display();
    let program = chosen(PROGRAM);
    let program = program.display();
    let preload = if clock {
        format!(
            "env LD_PRELOAD={CLOCK} FAKETIME_TIMESTAMP_FILE={root}/clock FAKETIME_CACHE_DURATION=1 \
             FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 "
        )
    } else {
        String::new()
    };
    // The limits below /proc/sys/user are those of the user namespace that writes them.
    let wrapper = node.root().join("registrar");
    let text = format!(
        "#!/bin/sh\n\
         [ \"$1\" = run ] || exec {program} \"$@\"\n\
         set -- {preload}{program} \"$@\"\n\
         limit() {{ exec unshare --user --map-root-user sh -c \"echo $1 >/proc/sys/user/$2 && shift 2 && exec \\\"\\$@\\\"\" sh \"$@\"; }}\n\
         case $(cat {root}/lacks) in\n\
         instances) limit 0 max_inotify_instances \"$@\" ;;\n\
         watches) limit 6 max_inotify_watches \"$@\" ;;\n\
         esac\n\
         exec \"$@\"\n"
    );
    script::write(&wrapper, &text);
    Registrar::exactly(wrapper, node)
}

fn set_clock(node: &Node, seconds: i64) {
    fs::write(node.root().join("clock"), format!("{seconds:+}")).unwrap();
}
