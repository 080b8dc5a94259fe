//! The node of the records: a driver in each state that state.json can have.

use std::fs;
use std::path::PathBuf;

use bed::scene::{DISCOVERY, KEEP, NAME, OTHER, SOON};
use bed::{Behaviour, ClusterFinding, FakeDriver, KubeletProcess, Release, Scene, report_cluster};

use crate::setup;

/// It never runs.
pub(crate) const MISSING: &str = "missing.csi.test";
/// No table names it.
pub(crate) const FOUND: &str = "found.csi.test";
/// It was registered, and does not run any more.
pub(crate) const STOPPED: &str = "stopped.csi.test";

pub(crate) struct Node {
    pub(crate) scene: Scene<KubeletProcess, Vec<FakeDriver>>,
}

impl Node {
    /// All drivers that run are registered.
    pub(crate) fn registered() -> Node {
        let tables = [NAME, OTHER, STOPPED, MISSING];
        let scene = setup().drivers(&tables).more(format!("{DISCOVERY}{KEEP}"));
        let scene = scene.set();
        let kubelet = KubeletProcess::start(scene.node.kubelet_settings(Release::V1_36));
        let mut described = Behaviour::named(NAME).with_topology("topology.example/zone", "z1");
        described.max_volumes = 8;
        let mut drivers = vec![scene.node.behaving(NAME, described)];
        drivers.extend([OTHER, FOUND, STOPPED].map(|id| scene.node.driver(id)));
        let mut scene = scene.with(kubelet, drivers);
        scene.registrar.start();
        let node = Node { scene };
        for id in [NAME, OTHER, FOUND, STOPPED] {
            node.wait_registered(id);
        }
        node
    }

    pub(crate) fn wait_registered(&self, id: &str) {
        self.scene.kubelet.wait_registered(id, SOON);
        self.scene.phase(id, "registered");
    }

    /// An operator withdraws a driver, and another driver stops. Verify has asked for the drivers that are left.
    pub(crate) fn settle(&mut self) {
        let scene = &mut self.scene;
        scene.registrar.succeed(&["withdraw", OTHER]);
        scene.phase(OTHER, "withdrawn");
        scene.kubelet.wait_deregistered(OTHER, SOON);
        // The last driver of the list.
        drop(scene.driver.pop());
        let is_down = |driver: &bed::DriverStatus| !driver.answering;
        scene
            .registrar
            .wait_driver("it is down", STOPPED, SOON, is_down);
        let named = scene.phase(NAME, "registered");
        let found = |driver: &str, registrations: u64, in_cluster: bool| ClusterFinding {
            driver: driver.to_owned(),
            registrations,
            in_cluster,
            difference: match in_cluster {
                true => String::new(),
                false => "CSINode node-1 does not list it".to_owned(),
            },
        };
        let findings = vec![
            found(NAME, named.registrations, true),
            found(FOUND, 1, false),
        ];
        report_cluster(&scene.control(), findings).unwrap();
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.scene.node.runtime_dir().join("state.json")
    }

    /// The state as the daemon left it when it was killed.
    pub(crate) fn kill(&mut self) -> String {
        self.scene.registrar.kill9();
        fs::read_to_string(self.state()).unwrap()
    }
}
