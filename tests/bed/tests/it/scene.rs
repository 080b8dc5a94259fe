//! A node with a driver, a stand-in registrar and a kubelet of one release, ten times as fast.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bed::kubelet::Mark;
use bed::scene::{NAME, SOON};
use bed::{FakeDriver, Node, Release, TestKubelet};

use crate::stand_in::StandIn;

/// Several rounds of the loop: long enough to see that nothing happens.
pub(crate) const ROUNDS: Duration = Duration::from_millis(500);

pub(crate) struct Scene {
    pub(crate) kubelet: TestKubelet,
    pub(crate) registrar: StandIn,
    pub(crate) driver: FakeDriver,
    pub(crate) node: Node,
}

impl Scene {
    /// Everything runs, and no link exists.
    pub(crate) fn new(release: Release) -> Self {
        let node = Node::new();
        let driver = node.driver(NAME);
        fs::create_dir_all(node.registry_dir()).unwrap();
        let registrar = StandIn::serve(&node.reg_socket(NAME), NAME, driver.path());
        let kubelet = TestKubelet::start(node.kubelet_settings(release));
        Self {
            kubelet,
            registrar,
            driver,
            node,
        }
    }

    /// Linked and registered.
    pub(crate) fn registered(release: Release) -> Self {
        let scene = Self::new(release);
        scene.make_link();
        scene.kubelet.wait_registered(NAME, SOON);
        scene
    }

    pub(crate) fn link(&self) -> PathBuf {
        self.node.link(NAME)
    }

    pub(crate) fn make_link(&self) {
        symlink(&self.registrar.path, self.link()).unwrap();
    }

    /// Renames a new link over the old one, from a directory that the kubelet does not watch.
    pub(crate) fn rename_link_over(&self) {
        let staged = self.node.kubelet_root().join("staged");
        symlink(&self.registrar.path, &staged).unwrap();
        fs::rename(&staged, self.link()).unwrap();
    }

    pub(crate) fn wait_told(&self, what: &str, count: usize) {
        bed::eventually(what, SOON, || {
            let told = self.registrar.told();
            (told.len() >= count)
                .then_some(())
                .ok_or(format!("{told:?}"))
        });
    }

    #[track_caller]
    pub(crate) fn nothing_since(&self, mark: Mark) {
        bed::scene::nothing_since(&self.kubelet, mark);
    }
}

pub(crate) fn remove(path: &Path) {
    fs::remove_file(path).unwrap();
}
