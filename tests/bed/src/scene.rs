//! A node with the registrar on it, and the questions that tests ask about both.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::driver::{Behaviour, FakeDriver};
use crate::eventually::{eventually, eventually_every, stays};
use crate::identity::identity;
use crate::kubelet::{Counts, KubeletProcess, Ledger, Mark, Release};
use crate::node::{Layout, Node};
use crate::proto::registration::PluginInfo;
use crate::registrar::Registrar;
use crate::status::DriverStatus;
use crate::wire;

/// The driver of most tests.
pub const NAME: &str = "local.csi.paas.cucloud";
/// A second driver.
pub const OTHER: &str = "nfs.csi.k8s.io";
/// For [`Setup::more`](crate::Setup::more): a stop leaves links and sockets as they are, as under
/// `systemctl restart`.
pub const KEEP: &str = "[service]\non_stop = \"keep\"\n";
/// For [`Setup::more`](crate::Setup::more).
pub const TAKE_OVER: &str = "[defaults]\non_live_owner = \"take-over\"\n";
/// For a configuration that a test writes itself.
pub const DISCOVERY: &str = "[discovery]\nenabled = true\n";
/// Far longer than anything takes on an idle machine: this machine may be busy with other tests.
pub const SOON: Duration = Duration::from_secs(40);
/// Long enough to see that nothing happens.
pub const A_WHILE: Duration = Duration::from_millis(700);
/// Longer than the registrar waits before its first announcement: a kubelet that has been quiet for
/// this long has nothing more to do soon.
pub const QUIET: Duration = Duration::from_millis(3700);
/// Each look at the status starts a process, and tests of releases run many scenes at once.
const LOOK_AGAIN: Duration = Duration::from_millis(40);

/// A node and its registrar, with the kubelet and the driver that [`Setup`](crate::Setup) started.
/// The registrar ends first, and the directories go last.
pub struct Scene<K = (), D = ()> {
    /// The registrar, running or not.
    pub registrar: Registrar,
    /// The kubelet, or `()` where the test starts its own.
    pub kubelet: K,
    /// The driver, or `()` where the test starts its own.
    pub driver: D,
    /// The registrar's id for the driver.
    pub id: &'static str,
    /// The directories.
    pub node: Node,
}

/// A scene with a kubelet of a chosen release in its own process, and one driver.
pub type KubeletScene = Scene<KubeletProcess, FakeDriver>;

impl<K, D> Scene<K, D> {
    /// The same with an environment variable for the registrar.
    #[must_use]
    pub fn with_env(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.registrar = self.registrar.with_env(key, value);
        self
    }

    /// Writes a configuration with discovery, followed by `more` of its keys and further tables.
    pub fn configure_discovery(&self, more: &str) {
        let config = format!("{DISCOVERY}{more}");
        self.node.write_default_config(&[], &config);
    }

    /// Writes a configuration with this as `http.listen`.
    pub fn listen(&self, drivers: &[&str], listen: &str) {
        let http = format!("[http]\nlisten = {listen:?}\n");
        self.node.write_default_config(drivers, &http);
    }

    /// The HTTP socket of [`Setup::http`](crate::Setup::http).
    pub fn http(&self) -> PathBuf {
        self.node.http_socket()
    }

    /// The control socket.
    pub fn control(&self) -> PathBuf {
        self.node.runtime_dir().join("control.sock")
    }

    /// The directory in which discovery finds the driver with this id.
    pub fn directory(&self, id: &str) -> PathBuf {
        self.node.plugins_dir().join(id)
    }

    /// Starts a driver that reports another name than its id.
    pub fn named(&self, id: &str, name: &str) -> FakeDriver {
        self.node.behaving(id, Behaviour::named(name))
    }

    /// Waits until the daemon answers.
    #[track_caller]
    pub fn wait_up(&self) {
        eventually("the daemon answers", SOON, || self.registrar.status());
    }

    /// Waits until the driver is in the phase.
    #[track_caller]
    pub fn phase(&self, id: &str, phase: &str) -> DriverStatus {
        self.registrar.wait_phase(id, phase, SOON)
    }

    /// Waits until the driver is in the phase, with these words in the reason.
    #[track_caller]
    pub fn reason(&self, id: &str, phase: &str, words: &str) -> DriverStatus {
        self.registrar.wait_reason(id, phase, words, SOON)
    }

    /// The ids of all drivers that the daemon has.
    pub fn ids(&self) -> Vec<String> {
        let drivers = self.registrar.status().unwrap().drivers;
        drivers.into_iter().map(|driver| driver.id).collect()
    }

    /// Waits until the daemon no longer has the driver.
    #[track_caller]
    pub fn wait_forgotten(&self, id: &str) {
        eventually("the driver is forgotten", SOON, || {
            !self.ids().contains(&id.to_owned())
        });
    }

    /// The text that the driver's link must hold.
    pub fn target(&self, name: &str) -> PathBuf {
        let socket = self.node.reg_socket(name);
        match self.node.layout() {
            Layout::TwoDirectories => socket,
            Layout::OneDirectory => socket.file_name().unwrap().into(),
        }
    }

    /// The link is the registrar's, and GetInfo through it has the driver's answer.
    pub fn is_published(&self, name: &str) -> Result<PluginInfo, String> {
        let link = self.node.link(name);
        let target = fs::read_link(&link).map_err(|error| format!("the link: {error}"))?;
        if target != self.target(name) {
            return Err(format!("the link holds {}", target.display()));
        }
        let info = wire::get_info(&link).map_err(|status| status.to_string())?;
        assert_eq!(info.name, name);
        Ok(info)
    }

    /// Waits until [`Self::is_published`].
    #[track_caller]
    pub fn wait_published(&self, name: &str) -> PluginInfo {
        eventually("the link answers", SOON, || self.is_published(name))
    }

    /// Waits until GetInfo is answered through the link, whatever the link holds.
    #[track_caller]
    pub fn wait_answered(&self, name: &str) {
        let link = self.node.link(name);
        eventually("GetInfo is answered", SOON, || {
            wire::get_info(&link).map_err(|status| status.to_string())
        });
    }

    /// Waits until the link is removed.
    #[track_caller]
    pub fn wait_no_link(&self, name: &str) {
        let link = self.node.link(name);
        eventually("the link is removed", SOON, || is_nothing(&link));
    }

    /// Every file below the node's root, except the runtime directory and the registrar's log.
    pub fn files(&self) -> BTreeSet<PathBuf> {
        let mut files = BTreeSet::new();
        walk(self.node.root(), &mut files);
        let own = [
            self.node.runtime_dir(),
            self.node.root().join("registrar.log"),
        ];
        files.retain(|path| !own.iter().any(|own| path.starts_with(own)));
        files
    }
}

impl Scene {
    /// The same with this kubelet and these drivers.
    #[must_use]
    pub fn with<K, D>(self, kubelet: K, driver: D) -> Scene<K, D> {
        Scene {
            registrar: self.registrar,
            kubelet,
            driver,
            id: self.id,
            node: self.node,
        }
    }
}

impl KubeletScene {
    /// Starts the registrar and waits for the registration.
    #[must_use]
    pub fn registered(mut self) -> Self {
        self.registrar.start();
        self.wait_registered();
        self
    }

    /// Waits until the kubelet and the registrar agree that the driver is registered.
    #[track_caller]
    pub fn wait_registered(&self) -> DriverStatus {
        self.kubelet.wait_registered(NAME, SOON);
        self.wait_phase("registered")
    }

    /// Waits until the driver is in the phase.
    #[track_caller]
    pub fn wait_phase(&self, phase: &str) -> DriverStatus {
        self.wait_driver(phase, |driver| driver.phase == phase)
    }

    /// Waits until the reason has these words.
    #[track_caller]
    pub fn wait_reason(&self, words: &str) -> DriverStatus {
        self.wait_driver(words, |driver| reason(driver).contains(words))
    }

    /// Waits until the driver's status is as wanted.
    #[track_caller]
    pub fn wait_driver(&self, what: &str, wanted: impl Fn(&DriverStatus) -> bool) -> DriverStatus {
        eventually_every(LOOK_AGAIN, what, SOON, || {
            self.registrar.driver_status(self.id, &wanted)
        })
    }

    /// Waits until the kubelet has done nothing for longer than the registrar's first timer, and
    /// returns what it did since the mark.
    #[track_caller]
    pub fn settled(&self, mark: Mark) -> Counts {
        let start = Instant::now();
        let mut known = None;
        let mut since = start;
        loop {
            let counts = self.kubelet.counts_since(mark);
            let outcomes = (
                counts.registrations,
                counts.deregistrations,
                counts.rejections,
                counts.api_writes(),
            );
            if known != Some(outcomes) {
                (known, since) = (Some(outcomes), Instant::now());
            }
            if since.elapsed() >= QUIET {
                return counts;
            }
            assert!(start.elapsed() < SOON, "never quiet: {counts:?}");
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// The driver is registered in the end, with this many registrations and de-registrations
    /// since the mark.
    #[track_caller]
    pub fn ends_registered(&self, mark: Mark, registrations: usize, deregistrations: usize) {
        self.wait_registered();
        let counts = self.settled(mark);
        self.wait_registered();
        let seen = (counts.registrations, counts.deregistrations);
        assert_eq!(
            seen,
            (registrations, deregistrations),
            "registrations and de-registrations; the kubelet did: {:#?}",
            self.kubelet.since(mark)
        );
    }

    /// The link of the driver.
    pub fn link(&self) -> PathBuf {
        self.node.link(NAME)
    }

    /// Stops the driver and waits until the registrar knows.
    #[track_caller]
    pub fn lose_driver(&mut self) {
        self.driver.kill();
        self.wait_reason("driver not responding");
    }
}

/// The reason in the status, or nothing.
pub fn reason(driver: &DriverStatus) -> &str {
    driver.reason.as_deref().unwrap_or_default()
}

/// Runs a test in both layouts, one after the other.
pub fn in_both_layouts(test: impl Fn(Layout)) {
    Layout::ALL.into_iter().for_each(test);
}

/// Runs a test for each release at once: most of their time is waiting.
pub fn for_each_release(test: impl Fn(Release) + Sync) {
    for_each(&Release::ALL, |release| test(*release));
}

/// Runs a test for each case at once.
pub fn for_each<T: Sync + std::fmt::Debug>(cases: &[T], test: impl Fn(&T) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            let test = &test;
            thread::Builder::new()
                .name(format!("{case:?}"))
                .spawn_scoped(scope, move || test(case))
                .unwrap();
        }
    });
}

/// The kubelet does nothing that the cluster would see.
#[track_caller]
pub fn nothing_since(kubelet: &Ledger, mark: Mark) {
    stays("the kubelet does nothing", A_WHILE, || {
        let counts = kubelet.counts_since(mark);
        (counts == Counts::default())
            .then_some(())
            .ok_or(format!("{counts:?}"))
    });
}

/// A file of any kind exists at the path itself.
pub fn exists(path: &Path) -> bool {
    identity(path).is_some()
}

/// No file exists at the path, and no link, not even a dangling link.
pub fn is_nothing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// A process listens on the socket.
pub fn is_alive(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

fn walk(directory: &Path, files: &mut BTreeSet<PathBuf>) {
    // A temporary file may be removed between the two calls.
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&path, files);
        }
        files.insert(path);
    }
}
