//! A node with a kubelet, a driver and the registrar between them, and what tests ask of it.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use bed::kubelet::{Counts, Mark};
use bed::{
    Behaviour, DriverStatus, FakeDriver, KubeletProcess, Node, Registrar, Release, Settings, Timing,
};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
pub(crate) const NAME: &str = "local.csi.paas.cucloud";
/// Far more than anything here takes on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(40);
/// Our stop leaves links and sockets as they are, as under `systemctl restart`.
pub(crate) const KEEP: &str = "[service]\non_stop = \"keep\"\n";
/// Longer than the registrar waits before its first announcement: who is quiet for so long has
/// nothing more to say soon.
const QUIET: Duration = Duration::from_millis(3700);
/// A look at the status is a process of its own, so not at every moment.
const LOOK_AGAIN: Duration = Duration::from_millis(40);

/// All parties of one node. The registrar ends first.
pub(crate) struct Scene {
    pub(crate) registrar: Registrar,
    pub(crate) kubelet: KubeletProcess,
    pub(crate) driver: FakeDriver,
    /// Under which the registrar has it.
    pub(crate) id: &'static str,
    pub(crate) node: Node,
}

/// A kubelet ten times as fast as in life where that changes nothing for us.
pub(crate) fn kubelet(node: &Node, release: Release) -> Settings {
    Settings::new(node.kubelet_root(), release).with_timing(Timing::faster(10))
}

impl Scene {
    /// Kubelet and driver run, the registrar is not started yet.
    pub(crate) fn set(release: Release, config: &str) -> Scene {
        let node = Node::new();
        let settings = kubelet(&node, release);
        Scene::with(node, settings, config)
    }

    /// The same with a kubelet of the test's choice.
    pub(crate) fn with(node: Node, settings: Settings, config: &str) -> Scene {
        node.write_default_config(&[NAME], config);
        Scene {
            registrar: Registrar::new(PROGRAM, &node),
            kubelet: KubeletProcess::start(settings),
            driver: FakeDriver::start_in_new_directory(
                node.csi_socket(NAME),
                Behaviour::named(NAME),
            ),
            id: NAME,
            node,
        }
    }

    /// Everything runs, the driver is registered, and our stop changes nothing.
    pub(crate) fn registered(release: Release) -> Scene {
        Scene::set(release, KEEP).started()
    }

    /// Starts the registrar and waits for the registration.
    pub(crate) fn started(mut self) -> Scene {
        self.registrar.start();
        self.wait_registered();
        self
    }

    /// Waits until the kubelet and the registrar agree that the driver is registered.
    #[track_caller]
    pub(crate) fn wait_registered(&self) -> DriverStatus {
        self.kubelet.wait_registered(NAME, SOON);
        self.wait_phase("registered")
    }

    #[track_caller]
    pub(crate) fn wait_phase(&self, phase: &str) -> DriverStatus {
        self.wait_driver(phase, |driver| driver.phase == phase)
    }

    /// Waits until the reason has these words.
    #[track_caller]
    pub(crate) fn wait_reason(&self, words: &str) -> DriverStatus {
        self.wait_driver(words, |driver| reason(driver).contains(words))
    }

    #[track_caller]
    pub(crate) fn wait_driver(
        &self,
        what: &str,
        wanted: impl Fn(&DriverStatus) -> bool,
    ) -> DriverStatus {
        wait_id(&self.registrar, self.id, what, wanted)
    }

    /// Waits until nothing has come of anything at the kubelet for longer than our first timer,
    /// and says what happened since the mark.
    #[track_caller]
    pub(crate) fn settled(&self, mark: Mark) -> Counts {
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

    /// The driver is registered in the end, with so many registrations and de-registrations
    /// since the mark.
    #[track_caller]
    pub(crate) fn ends_registered(&self, mark: Mark, registrations: usize, deregistrations: usize) {
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

    pub(crate) fn link(&self) -> PathBuf {
        self.node.link(NAME)
    }

    /// Stops the driver and waits until the registrar knows.
    pub(crate) fn lose_driver(&mut self) {
        self.driver.kill();
        self.wait_reason("driver not responding");
    }

    /// Runs a command of the binary that must succeed.
    #[track_caller]
    pub(crate) fn command(&self, arguments: &[&str]) {
        let output = self.registrar.run_cli(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
    }
}

#[track_caller]
pub(crate) fn wait_driver(
    registrar: &Registrar,
    what: &str,
    wanted: impl Fn(&DriverStatus) -> bool,
) -> DriverStatus {
    wait_id(registrar, NAME, what, wanted)
}

#[track_caller]
pub(crate) fn wait_id(
    registrar: &Registrar,
    id: &str,
    what: &str,
    wanted: impl Fn(&DriverStatus) -> bool,
) -> DriverStatus {
    let start = Instant::now();
    loop {
        let late = start.elapsed() >= SOON;
        let status = registrar.status();
        let driver = status.as_ref().and_then(|status| status.driver(id));
        match driver {
            Some(driver) if wanted(driver) => return driver.clone(),
            _ if late => panic!("not within {SOON:?}: {what}; last seen: {status:#?}"),
            _ => thread::sleep(LOOK_AGAIN),
        }
    }
}

pub(crate) fn reason(driver: &DriverStatus) -> &str {
    driver.reason.as_deref().unwrap_or_default()
}

pub(crate) fn is_there(path: &Path) -> bool {
    bed::identity(path).is_some()
}

/// Runs the scene for each release at once: most of their time is waiting.
pub(crate) fn for_each_release(scene: impl Fn(Release) + Sync) {
    for_each(&Release::ALL, |release| scene(*release));
}

/// Runs the scene for each case at once.
pub(crate) fn for_each<T: Sync + std::fmt::Debug>(cases: &[T], scene: impl Fn(&T) + Sync) {
    thread::scope(|scope| {
        for case in cases {
            let scene = &scene;
            thread::Builder::new()
                .name(format!("{case:?}"))
                .spawn_scoped(scope, move || scene(case))
                .unwrap();
        }
    });
}
