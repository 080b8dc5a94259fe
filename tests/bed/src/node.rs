//! A temporary directory laid out as a node.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::driver::{Behaviour, FakeDriver};
use crate::flood::raise_file_limit;
use crate::kubelet::{Release, Settings, TestKubelet, Timing};
use crate::volumes::KubeletVolumes;

/// Where registration sockets are, in relation to the kubelet's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// A separate registry_dir, and links from the kubelet's directory.
    TwoDirectories,
    /// The kubelet's plugins_registry is registry_dir as well, as with node-driver-registrar; the
    /// socket is hidden.
    OneDirectory,
}

impl Layout {
    /// Both layouts.
    pub const ALL: [Self; 2] = [Self::TwoDirectories, Self::OneDirectory];
}

/// The directories of one node, removed when it is dropped.
pub struct Node {
    dir: TempDir,
    layout: Layout,
}

impl Node {
    /// A node with two directories.
    pub fn new() -> Self {
        Self::with_layout(Layout::TwoDirectories)
    }

    /// A node with either layout.
    ///
    /// It has plugins_dir, run and etc. The registrar creates the registry, and the kubelet its own
    /// directories, as on a real node.
    pub fn with_layout(layout: Layout) -> Self {
        // Not $TMPDIR: a socket's path may have 107 bytes, and driver names need most of them.
        Self::below(Path::new("/tmp"), layout)
    }

    /// The same below another directory than /tmp. The registrar watches every directory on the path,
    /// and changes by other processes there wake it.
    pub fn below(base: &Path, layout: Layout) -> Self {
        raise_file_limit();
        let dir = tempfile::Builder::new()
            .prefix("nsdr-")
            .tempdir_in(base)
            .unwrap();
        let node = Self { dir, layout };
        for dir in [
            node.plugins_dir(),
            node.runtime_dir(),
            node.root().join("etc"),
        ] {
            fs::create_dir_all(dir).unwrap();
        }
        node
    }

    /// The temporary directory.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Which layout it has.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// `plugins_dir`: where drivers live.
    pub fn plugins_dir(&self) -> PathBuf {
        self.root().join("vdata/storage/plugins")
    }

    /// `registry_dir`: where registration sockets live.
    pub fn registry_dir(&self) -> PathBuf {
        match self.layout {
            Layout::TwoDirectories => self.root().join("vdata/storage/plugins_registry"),
            Layout::OneDirectory => self.plugins_registry(),
        }
    }

    /// `kubelet.root_dir`
    pub fn kubelet_root(&self) -> PathBuf {
        self.root().join("kubelet")
    }

    /// `kubelet.plugins_registry`: where links go.
    pub fn plugins_registry(&self) -> PathBuf {
        self.kubelet_root().join("plugins_registry")
    }

    /// The kubelet's files about its volumes.
    pub fn volumes(&self) -> KubeletVolumes {
        KubeletVolumes::below(self.kubelet_root())
    }

    /// The registrar's runtime directory.
    pub fn runtime_dir(&self) -> PathBuf {
        self.root().join("run")
    }

    /// The registrar's HTTP socket, where a test wants it on a Unix socket.
    pub fn http_socket(&self) -> PathBuf {
        self.runtime_dir().join("http.sock")
    }

    /// The configuration file; [`Self::write_config`] writes it.
    pub fn config_file(&self) -> PathBuf {
        self.root().join("etc/config.toml")
    }

    /// `<plugins_dir>/<id>/csi.sock`
    pub fn csi_socket(&self, id: &str) -> PathBuf {
        self.plugins_dir().join(id).join("csi.sock")
    }

    /// The registration socket of a driver.
    pub fn reg_socket(&self, name: &str) -> PathBuf {
        let hidden = match self.layout {
            Layout::TwoDirectories => "",
            Layout::OneDirectory => ".",
        };
        self.registry_dir().join(format!("{hidden}{name}-reg.sock"))
    }

    /// The link to it that the kubelet finds.
    pub fn link(&self, name: &str) -> PathBuf {
        self.plugins_registry().join(format!("{name}-reg.sock"))
    }

    /// Creates the kubelet's plugins_registry, for tests without a kubelet.
    pub fn make_plugins_registry(&self) {
        fs::create_dir_all(self.plugins_registry()).unwrap();
    }

    /// A configuration with this node's directories and these drivers, all keys at their defaults.
    pub fn default_config(&self, drivers: &[&str]) -> String {
        let mut config = format!(
            "plugins_dir = {:?}\nregistry_dir = {:?}\n\n[kubelet]\nroot_dir = {:?}\n",
            self.plugins_dir(),
            self.registry_dir(),
            self.kubelet_root()
        );
        for driver in drivers {
            config.push_str(&format!("\n[drivers.{driver:?}]\n"));
        }
        config
    }

    /// Writes [`Self::default_config`], followed by `more`: whole tables in TOML.
    pub fn write_default_config(&self, drivers: &[&str], more: &str) {
        self.write_config(&format!("{}\n{more}", self.default_config(drivers)));
    }

    /// Writes this text as the configuration file.
    pub fn write_config(&self, toml: &str) {
        fs::write(self.config_file(), toml).unwrap();
    }

    /// Starts a healthy driver whose id is its name.
    pub fn driver(&self, id: &str) -> FakeDriver {
        self.behaving(id, Behaviour::named(id))
    }

    /// Starts a driver with this behaviour.
    pub fn behaving(&self, id: &str, behaviour: Behaviour) -> FakeDriver {
        FakeDriver::start_in_new_directory(self.csi_socket(id), behaviour)
    }

    /// Starts the newest kubelet, with [`Self::kubelet_settings`], on a thread of this process.
    pub fn kubelet(&self) -> TestKubelet {
        TestKubelet::start(self.kubelet_settings(Release::V1_36))
    }

    /// A kubelet of this node, ten times as fast as a real one where the registrar cannot tell.
    pub fn kubelet_settings(&self, release: Release) -> Settings {
        Settings::new(self.kubelet_root(), release).with_timing(Timing::faster(10))
    }

    /// The same with a back-off of one second at most: a kubelet that met a dead link dials it again
    /// soon.
    pub fn eager_kubelet_settings(&self, release: Release) -> Settings {
        self.kubelet_settings(release).with_timing(Timing {
            backoff_max: Duration::from_secs(1),
            ..Timing::faster(10)
        })
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}
