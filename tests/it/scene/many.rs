//! A node whose drivers are found, and what tests ask of it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Output;
use std::time::Duration;

use bed::{Behaviour, DriverStatus, FakeDriver, Layout, Node, Registrar, eventually};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
pub(crate) const NAME: &str = "local.csi.paas.cucloud";
pub(crate) const OTHER: &str = "nfs.csi.k8s.io";
/// Generous: the machine may be busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Long enough to see that nothing happens.
pub(crate) const A_WHILE: Duration = Duration::from_millis(700);
pub(crate) const DISCOVERY: &str = "[discovery]\nenabled = true\n";

/// A node and its registrar. What else runs there is the test's own.
pub(crate) struct Scene {
    pub(crate) registrar: Registrar,
    pub(crate) node: Node,
}

impl Scene {
    /// Discovery is on, followed by `more` of its keys and further tables; nothing runs yet.
    pub(crate) fn new(layout: Layout, more: &str) -> Scene {
        let node = Node::with_layout(layout);
        node.make_kubelet_registry_dir();
        let scene = Scene {
            registrar: Registrar::new(PROGRAM, &node),
            node,
        };
        scene.configure(more);
        scene
    }

    pub(crate) fn started(layout: Layout, more: &str) -> Scene {
        let mut scene = Scene::new(layout, more);
        scene.registrar.start();
        scene.wait_up();
        scene
    }

    pub(crate) fn configure(&self, more: &str) {
        let config = format!("{DISCOVERY}{more}");
        self.node.write_default_config(&[], &config);
    }

    /// The daemon answers.
    #[track_caller]
    pub(crate) fn wait_up(&self) {
        eventually("the daemon answers", SOON, || self.registrar.status());
    }

    pub(crate) fn named(&self, id: &str, name: &str) -> FakeDriver {
        self.node.behaving(id, Behaviour::named(name))
    }

    #[track_caller]
    pub(crate) fn phase(&self, id: &str, phase: &str) -> DriverStatus {
        self.registrar.wait_phase(id, phase, SOON)
    }

    /// Waits until the driver is in the phase, with these words in the reason.
    #[track_caller]
    pub(crate) fn reason(&self, id: &str, phase: &str, words: &str) -> DriverStatus {
        self.registrar.wait_reason(id, phase, words, SOON)
    }

    /// Waits until nobody knows of the driver any more.
    #[track_caller]
    pub(crate) fn wait_forgotten(&self, id: &str) {
        eventually("the driver is forgotten", SOON, || {
            !self.ids().contains(&id.to_owned())
        });
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        let drivers = self.registrar.status().unwrap().drivers;
        drivers.into_iter().map(|driver| driver.id).collect()
    }

    pub(crate) fn directory(&self, id: &str) -> std::path::PathBuf {
        self.node.plugins_dir().join(id)
    }
}

/// No file, no link, not even one that leads nowhere.
pub(crate) fn is_nothing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}
