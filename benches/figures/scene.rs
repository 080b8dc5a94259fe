//! A node with its drivers and a contender, and the conditions that the benchmark waits for.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bed::{Behaviour, FakeDriver, Node, TestKubelet, raw};
use tempfile::TempDir;

use crate::contender::{Contender, Crew};

/// Far longer than a working step takes. A longer step counts as not measured.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);
/// The same for a thousand drivers, which are a thousand threads beside the contender.
pub(crate) const LONG_DEADLINE: Duration = Duration::from_secs(300);
const LOOK_AGAIN: Duration = Duration::from_micros(30);
/// The next run starts from a contender at rest.
const REST: Duration = Duration::from_millis(20);
/// Not /tmp: the daemon watches every directory on the path, and other processes use /tmp.
const BASE: &str = "/var/tmp";
/// A file system in memory, as /run is on a node. Everything else of the node is on disk.
const IN_MEMORY: &str = "/dev/shm";

/// The contender ends first.
pub(crate) struct Scene {
    pub(crate) crew: Crew,
    pub(crate) drivers: Vec<FakeDriver>,
    pub(crate) names: Vec<String>,
    pub(crate) node: Node,
    _runtime: TempDir,
}

impl Scene {
    /// Drivers are found by themselves, as in the shipped configuration, with `more` of its tables.
    /// Their directories are there, and nothing runs yet.
    pub(crate) fn new(contender: &Contender, drivers: usize, more: &str) -> Scene {
        let node = Node::below(Path::new(BASE), contender.layout());
        node.make_plugins_registry();
        let runtime = tempfile::tempdir_in(IN_MEMORY).expect("there is a file system in memory");
        fs::remove_dir(node.runtime_dir())
            .and_then(|()| symlink(runtime.path(), node.runtime_dir()))
            .expect("the node's directory is writable");
        node.write_default_config(&[], &format!("[discovery]\nenabled = true\n{more}"));
        let names: Vec<String> = (0..drivers)
            .map(|number| format!("driver-{number:04}.example.com"))
            .collect();
        for name in &names {
            fs::create_dir(node.plugins_dir().join(name))
                .expect("the node's directory is writable");
        }
        Scene {
            crew: contender.crew(&node, &names),
            drivers: Vec::new(),
            names,
            node,
            _runtime: runtime,
        }
    }

    /// The same with every driver there.
    pub(crate) fn with_drivers(contender: &Contender, drivers: usize, more: &str) -> Scene {
        let mut scene = Scene::new(contender, drivers, more);
        scene.drivers_come();
        scene
    }

    pub(crate) fn drivers_come(&mut self) {
        let come =
            |name: &String| FakeDriver::start(self.node.csi_socket(name), Behaviour::named(name));
        self.drivers = self.names.iter().map(come).collect();
    }

    /// What the kubelet would find of the first driver.
    pub(crate) fn link(&self) -> PathBuf {
        self.node.link(&self.names[0])
    }

    /// Waits until the first driver's socket answers through the link. After a restart it may be
    /// served before the driver has answered.
    pub(crate) fn wait_serving(&self) {
        let link = self.link();
        spin_until("the socket behind the link answers", || {
            raw::get_info(&link, "localhost").is_ok_and(|answer| !answer.is_empty())
        });
    }

    pub(crate) fn wait_up(&self) {
        let start = Instant::now();
        while !self.crew.is_up() {
            assert!(start.elapsed() < DEADLINE, "it does not come up");
            rest();
        }
    }

    /// Waits until the kubelet has registered every driver.
    pub(crate) fn wait_registered(&self, kubelet: &TestKubelet) {
        let start = Instant::now();
        while kubelet.registered().len() < self.names.len() {
            let late = start.elapsed() > LONG_DEADLINE;
            assert!(!late, "not all drivers are registered");
            rest();
        }
    }
}

/// Looks every hundred microseconds or so. To look without a pause would take one of two cores away
/// from the measured processes.
pub(crate) fn spin_until(what: &str, condition: impl Fn() -> bool) {
    assert!(
        spins_until(DEADLINE, condition),
        "not in {DEADLINE:?}: {what}"
    );
}

/// The same, and says whether it came to be.
pub(crate) fn spins_until(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() {
        if start.elapsed() > patience {
            return false;
        }
        thread::sleep(LOOK_AGAIN);
    }
    true
}

pub(crate) fn connects(socket: &Path) -> bool {
    UnixStream::connect(socket).is_ok()
}

pub(crate) fn rest() {
    thread::sleep(REST);
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
