//! A node with a hundred drivers, and what is looked at between two laps.

use std::thread;
use std::time::{Duration, Instant};

use bed::{Behaviour, FakeDriver, KubeletProcess, Node, Registrar, Release, Settings, Timing};

const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
pub(crate) const DRIVERS: usize = 100;
/// A busy machine, a hundred drivers, and a back-off of ours that has reached its end.
const SOON: Duration = Duration::from_secs(120);
/// A look at the status is a process of its own, so not at every moment.
const LOOK_AGAIN: Duration = Duration::from_millis(150);

/// All parties. The registrar ends first.
pub(crate) struct Scene {
    pub(crate) registrar: Registrar,
    pub(crate) kubelet: KubeletProcess,
    pub(crate) drivers: Vec<FakeDriver>,
    pub(crate) node: Node,
}

pub(crate) fn name(number: usize) -> String {
    format!("soak-{number}.test")
}

/// A kubelet ten times as fast as in life, which tries again after a second at the latest.
pub(crate) fn kubelet(node: &Node, release: Release) -> Settings {
    Settings::new(node.kubelet_root(), release).with_timing(Timing {
        backoff_max: Duration::from_secs(1),
        ..Timing::faster(10)
    })
}

impl Scene {
    /// Every driver is registered.
    pub(crate) fn started() -> Scene {
        let node = Node::new();
        let more = format!(
            "[service]\non_stop = \"keep\"\n[discovery]\nenabled = true\n[http]\nlisten = \"unix:{}\"\n",
            node.runtime_dir().join("http.sock").display()
        );
        node.write_default_config(&[], &more);
        let start = |number| {
            let name = name(number);
            FakeDriver::start_in_new_directory(node.csi_socket(&name), Behaviour::named(&name))
        };
        let mut scene = Scene {
            registrar: Registrar::new(PROGRAM, &node),
            kubelet: KubeletProcess::start(kubelet(&node, Release::V1_36)),
            drivers: (0..DRIVERS).map(start).collect(),
            node,
        };
        scene.registrar.start();
        scene.wait_registered();
        scene
    }

    /// Waits until the kubelet and the registrar agree that every driver is registered and answers.
    #[track_caller]
    pub(crate) fn wait_registered(&self) {
        let start = Instant::now();
        loop {
            let late = start.elapsed() >= SOON;
            match self.missing() {
                Ok(()) => return,
                Err(missing) => assert!(!late, "not within {SOON:?}: {missing}"),
            }
            thread::sleep(LOOK_AGAIN);
        }
    }

    fn missing(&self) -> Result<(), String> {
        let registered = self.kubelet.registered().len();
        if registered != DRIVERS {
            return Err(format!("the kubelet has {registered} drivers"));
        }
        let status = self.registrar.status().ok_or("no daemon answers")?;
        let well = status.drivers.iter().filter(|driver| {
            let reason = driver.reason.as_deref().unwrap_or_default();
            driver.phase == "registered" && !reason.contains("not responding")
        });
        let well = well.count();
        if well == DRIVERS {
            return Ok(());
        }
        Err(format!("{well} drivers are well: {status:#?}"))
    }

    /// No panic, and nothing that somebody would have to act on.
    pub(crate) fn said_nothing_bad(&self) {
        let log = self.registrar.logs();
        let is_bad = |line: &&str| line.contains("panicked at") || line.contains(" ERROR ");
        let bad: Vec<&str> = log.lines().filter(is_bad).collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
}
