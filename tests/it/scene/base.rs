//! A node with the registrar on it, and what most tests ask of the two.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use bed::kubelet::{Counts, Mark};
use bed::proto::registration::PluginInfo;
use bed::{DriverStatus, FakeDriver, Layout, Node, Registrar, TestKubelet, eventually, stays};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
pub(crate) const NAME: &str = "local.csi.paas.cucloud";
pub(crate) const OTHER: &str = "nfs.csi.k8s.io";
/// For `more`.
pub(crate) const KEEP: &str = "[service]\non_stop = \"keep\"\n";
/// For `more`.
pub(crate) const TAKE_OVER: &str = "[defaults]\non_live_owner = \"take-over\"\n";
/// Generous: the machine may be busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// Long enough to see that nothing happens.
pub(crate) const A_WHILE: Duration = Duration::from_millis(700);

/// A node and its registrar. What else runs there is the test's own.
pub(crate) struct Scene {
    pub(crate) registrar: Registrar,
    pub(crate) node: Node,
}

impl Scene {
    /// The kubelet's directory is there, `drivers` are configured, followed by `more` tables of
    /// TOML; nothing runs yet.
    pub(crate) fn new(layout: Layout, drivers: &[&str], more: &str) -> Scene {
        let node = Node::with_layout(layout);
        node.make_kubelet_registry_dir();
        node.write_default_config(drivers, more);
        Scene {
            registrar: Registrar::new(PROGRAM, &node),
            node,
        }
    }

    /// The same, and the registrar runs.
    pub(crate) fn started(layout: Layout, drivers: &[&str], more: &str) -> Scene {
        let mut scene = Scene::new(layout, drivers, more);
        scene.registrar.start();
        scene
    }

    /// One driver, published.
    pub(crate) fn published(layout: Layout) -> (Scene, FakeDriver) {
        let scene = Scene::started(layout, &[NAME], "");
        let driver = scene.node.driver(NAME);
        scene.wait_published(NAME);
        (scene, driver)
    }

    /// The same under a kubelet that has registered the driver.
    pub(crate) fn registered(layout: Layout) -> (Scene, FakeDriver, TestKubelet) {
        let scene = Scene::started(layout, &[NAME], "");
        let kubelet = scene.node.kubelet();
        let driver = scene.node.driver(NAME);
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
        (scene, driver, kubelet)
    }

    /// The same with environment variables, started or not as the test says.
    pub(crate) fn with_env(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Scene {
        self.registrar = self.registrar.with_env(key, value);
        self
    }

    /// What the link of a driver must hold.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        let socket = self.node.reg_socket(name);
        match self.node.layout() {
            Layout::TwoDirectories => socket,
            Layout::OneDirectory => socket.file_name().unwrap().into(),
        }
    }

    /// The link is ours, and who goes through it gets the driver's answer.
    pub(crate) fn is_published(&self, name: &str) -> Result<PluginInfo, String> {
        let link = self.node.link(name);
        let target = fs::read_link(&link).map_err(|error| format!("the link: {error}"))?;
        if target != self.target(name) {
            return Err(format!("the link holds {}", target.display()));
        }
        let info = bed::wire::get_info(&link).map_err(|status| status.to_string())?;
        assert_eq!(info.name, name);
        Ok(info)
    }

    #[track_caller]
    pub(crate) fn wait_published(&self, name: &str) -> PluginInfo {
        eventually("the link answers", SOON, || self.is_published(name))
    }

    #[track_caller]
    pub(crate) fn wait_no_link(&self, name: &str) {
        let link = self.node.link(name);
        eventually("the link goes", SOON, || is_nothing(&link));
    }

    /// Waits until the driver is in the phase.
    #[track_caller]
    pub(crate) fn phase(&self, id: &str, phase: &str) -> DriverStatus {
        self.registrar.wait_phase(id, phase, SOON)
    }

    /// Waits until the driver is in the phase, with these words in the reason.
    #[track_caller]
    pub(crate) fn reason(&self, id: &str, phase: &str, words: &str) -> DriverStatus {
        self.registrar.wait_reason(id, phase, words, SOON)
    }

    /// Everything below the node's root but what the registrar and the test keep for themselves.
    pub(crate) fn files(&self) -> BTreeSet<PathBuf> {
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

/// Runs a test in both layouts.
pub(crate) fn in_both_layouts(test: impl Fn(Layout)) {
    Layout::ALL.into_iter().for_each(test);
}

/// The kubelet has not done anything that the cluster would see.
#[track_caller]
pub(crate) fn nothing_since(kubelet: &TestKubelet, mark: Mark) {
    stays("the kubelet does nothing", A_WHILE, || {
        let counts = kubelet.counts_since(mark);
        (counts == Counts::default())
            .then_some(())
            .ok_or(format!("{counts:?}"))
    });
}

/// No file, no link, not even one that leads nowhere.
pub(crate) fn is_nothing(path: &Path) -> bool {
    matches!(fs::symlink_metadata(path), Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Somebody listens there.
pub(crate) fn is_alive(path: &Path) -> bool {
    UnixStream::connect(path).is_ok()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn walk(directory: &Path, files: &mut BTreeSet<PathBuf>) {
    // A temporary name may be gone between the two looks.
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
