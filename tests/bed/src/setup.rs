//! How a scene is set up: layout, configuration, kubelet, and how far the registration has come.

use std::path::PathBuf;

use crate::driver::FakeDriver;
use crate::kubelet::{KubeletProcess, Release, Settings, TestKubelet};
use crate::node::{Layout, Node};
use crate::registrar::Registrar;
use crate::scene::{DISCOVERY, KubeletScene, NAME, SOON, Scene};

/// Gives a test binary `PROGRAM`, the registrar that cargo built for it, and `setup()`, which begins
/// a scene with it.
///
/// One line in the root of each test binary: only there cargo names the registrar's file.
#[macro_export]
macro_rules! registrar_program {
    () => {
        /// The registrar that cargo built.
        pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");

        /// Begins a scene with [`PROGRAM`].
        pub(crate) fn setup() -> $crate::Setup {
            $crate::Setup::new(PROGRAM)
        }
    };
}

/// A scene before it begins. By default: two directories, a table for the driver [`NAME`], every other
/// key at its default.
pub struct Setup {
    program: PathBuf,
    node: Option<Node>,
    layout: Layout,
    drivers: Vec<String>,
    discovery: bool,
    http: bool,
    more: String,
}

impl Setup {
    /// With this registrar; [`registrar_program!`](crate::registrar_program) calls it.
    pub fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            node: None,
            layout: Layout::TwoDirectories,
            drivers: vec![NAME.to_owned()],
            discovery: false,
            http: false,
            more: String::new(),
        }
    }

    /// The same with this layout.
    #[must_use]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.layout = layout;
        self
    }

    /// The same on a node that the test has prepared, which has its own layout.
    #[must_use]
    pub fn on(mut self, node: Node) -> Self {
        self.node = Some(node);
        self
    }

    /// The same with tables for these drivers and no others.
    #[must_use]
    pub fn drivers(mut self, drivers: &[&str]) -> Self {
        self.drivers = drivers.iter().map(|&driver| driver.to_owned()).collect();
        self
    }

    /// The same with discovery in place of tables. [`Self::more`] may begin with keys of `[discovery]`.
    #[must_use]
    pub fn discovery(mut self) -> Self {
        self.discovery = true;
        self.drivers(&[])
    }

    /// The same with HTTP on [`Scene::http`].
    #[must_use]
    pub fn http(mut self) -> Self {
        self.http = true;
        self
    }

    /// The same with more TOML: whole tables.
    #[must_use]
    pub fn more(mut self, toml: impl Into<String>) -> Self {
        self.more = toml.into();
        self
    }

    /// The same with a kubelet of this release in a process of its own, and a healthy driver.
    pub fn kubelet(self, release: Release) -> KubeletSetup {
        KubeletSetup {
            setup: self,
            release,
            change: Box::new(|settings| settings),
        }
    }

    /// The configuration is written, and nothing runs.
    pub fn set(self) -> Scene {
        let scene = self.configured();
        scene.node.make_plugins_registry();
        scene
    }

    /// The registrar runs.
    pub fn started(self) -> Scene {
        let discovery = self.discovery;
        let mut scene = self.set();
        scene.registrar.start();
        if discovery {
            // Until the daemon answers, no test can tell "no driver was discovered" from "not yet".
            scene.wait_up();
        }
        scene
    }

    /// The registrar and the driver [`NAME`] run, and the link answers.
    pub fn published(self) -> (Scene, FakeDriver) {
        let scene = self.started();
        let driver = scene.node.driver(NAME);
        scene.wait_published(NAME);
        (scene, driver)
    }

    /// The same under a kubelet of this process that has registered the driver.
    pub fn registered(self) -> (Scene, FakeDriver, TestKubelet) {
        let scene = self.started();
        let kubelet = scene.node.kubelet();
        let driver = scene.node.driver(NAME);
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
        (scene, driver, kubelet)
    }

    fn configured(self) -> Scene {
        let node = self.node.unwrap_or_else(|| Node::with_layout(self.layout));
        let drivers: Vec<&str> = self.drivers.iter().map(String::as_str).collect();
        let mut tables = String::new();
        if self.http {
            let socket = node.http_socket();
            tables += &format!("[http]\nlisten = \"unix:{}\"\n", socket.display());
        }
        if self.discovery {
            tables += DISCOVERY;
        }
        node.write_default_config(&drivers, &(tables + &self.more));
        Scene {
            registrar: Registrar::new(self.program, &node),
            kubelet: (),
            driver: (),
            id: NAME,
            node,
        }
    }
}

/// A scene with a kubelet of a chosen release before it begins.
pub struct KubeletSetup {
    setup: Setup,
    release: Release,
    change: Box<dyn FnOnce(Settings) -> Settings>,
}

impl KubeletSetup {
    /// The same with other settings of the kubelet, such as its times.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(Settings) -> Settings + 'static) -> Self {
        self.change = Box::new(change);
        self
    }

    /// Kubelet and driver run, the registrar does not run yet.
    pub fn set(self) -> KubeletScene {
        let scene = self.setup.configured();
        let settings = (self.change)(scene.node.kubelet_settings(self.release));
        let driver = scene.node.driver(NAME);
        scene.with(KubeletProcess::start(settings), driver)
    }

    /// Everything runs, and the driver is registered.
    pub fn registered(self) -> KubeletScene {
        self.set().registered()
    }
}
