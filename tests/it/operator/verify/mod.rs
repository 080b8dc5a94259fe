//! `verify`: the real daemon and the real program, the test kubelet, and the test API server.
//!
//! The well-known places of kubeconfigs are not tested here: they are below `/`, and belong to the machine.

mod announcements;
mod comparison;
mod doctor;
mod faults;
mod kubeconfigs;
mod memory;
mod node_name;

mod secrets;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bed::api_server::{State, csi_driver};
use bed::scene::{KEEP, NAME, SOON};
use bed::{
    ApiServer, Behaviour, DriverStatus, FakeDriver, Node, Scene, TestKubelet, eventually, stderr,
    stdout,
};
use serde_json::{Value, json};

use crate::setup;

/// The name of the node in the cluster.
const NODE: &str = "node-1";
/// A key of the driver's topology.
const ZONE: &str = "topology.example/zone";
/// In the runtime directory.
const MEMORY: &str = "repairs.json";

/// A node whose driver is registered, and its cluster.
struct Stage {
    scene: Scene<TestKubelet, FakeDriver>,
    server: ApiServer,
    kubeconfig: PathBuf,
}

/// The result of a run of verify.
struct Verdict {
    code: Option<i32>,
    /// Null if it printed none.
    report: Value,
    words: String,
}

/// The driver of these tests has everything that verify compares.
fn behaviour() -> Behaviour {
    let mut behaviour = Behaviour::named(NAME).with_topology(ZONE, "z1");
    behaviour.max_volumes = 8;
    behaviour
}

impl Stage {
    /// The cluster has what the kubelet wrote, and a CSIDriver object.
    fn set() -> Stage {
        Self::on(Node::new(), "", NODE)
    }

    /// The same on a node that the test has prepared, with more configuration, and with another name in the
    /// cluster.
    fn on(node: Node, more: &str, name: &str) -> Stage {
        let scene = setup().on(node).more(format!("{KEEP}{more}")).started();
        let kubelet = scene.node.kubelet();
        let driver = scene.node.behaving(NAME, behaviour());
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");
        let server = ApiServer::start(name);
        server.mirror(&kubelet.cluster());
        server.change(|state| {
            let object = csi_driver(NAME, false);
            state.csi_drivers.insert(NAME.to_owned(), object);
        });
        let kubeconfig = server.kubeconfig().write(&scene.node.root().join("pki"));
        let scene = scene.with(kubelet, driver);
        Stage {
            scene,
            server,
            kubeconfig,
        }
    }

    /// The same with a registration that is older than the minute in which none is repaired.
    fn settled() -> Stage {
        let mut stage = Self::set();
        stage.settle();
        stage
    }

    fn settle(&mut self) {
        let registrar = &mut self.scene.registrar;
        registrar.stop();
        let path = self.scene.node.runtime_dir().join("state.json");
        let mut state: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        for (_, driver) in state["drivers"].as_object_mut().unwrap() {
            let since = &mut driver["shown"]["since"];
            let time: jiff::Timestamp = since.as_str().unwrap().parse().unwrap();
            *since = (time - Duration::from_secs(120)).to_string().into();
        }
        fs::write(&path, state.to_string()).unwrap();
        registrar.start();
        self.scene.phase(NAME, "registered");
    }

    /// Changes the objects of the cluster behind the kubelet's back.
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.server.change(change);
    }

    /// Makes the objects of the cluster what the kubelet wrote.
    fn restore(&self) {
        self.server.change(|state| {
            *state = State::of(self.server.node_name());
            let object = csi_driver(NAME, false);
            state.csi_drivers.insert(NAME.to_owned(), object);
        });
        self.server.mirror(&self.scene.kubelet.cluster());
    }

    /// `verify --json` with the kubelet's kubeconfig and these arguments.
    #[track_caller]
    fn verify(&self, arguments: &[&str]) -> Verdict {
        run(&mut self.command(arguments))
    }

    /// The Node does not exist, and the daemon does not hear of it: the name or the cluster may be wrong.
    #[track_caller]
    fn is_not_told(&self, arguments: &[&str]) {
        let verdict = self.verify(arguments);
        verdict.ends_with(1).says("the daemon is not told");
        assert_eq!(verdict.report["node_found"], false);
        assert_eq!(self.driver().in_cluster, None);
    }

    /// The command, for a test that runs it itself.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.scene.registrar.command("verify");
        command
            .args(["--json", "--kubeconfig"])
            .arg(&self.kubeconfig)
            .args(arguments);
        command
    }

    /// The same while the cluster gets what the kubelet writes.
    #[track_caller]
    fn verify_mirrored(&self, arguments: &[&str]) -> Verdict {
        let (kubelet, mark) = (&self.scene.kubelet, self.scene.kubelet.mark());
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut seen = 0;
                eventually("verify has ended", 2 * SOON, || {
                    let ended = has_ended.load(Ordering::SeqCst);
                    let writes = kubelet.counts_since(mark).api_writes();
                    if writes > seen {
                        seen = writes;
                        self.server.mirror(&kubelet.cluster());
                    }
                    ended
                });
            });
            let verdict = self.verify(arguments);
            has_ended.store(true, Ordering::SeqCst);
            verdict
        })
    }

    #[track_caller]
    fn driver(&self) -> DriverStatus {
        let status = self.scene.registrar.status().unwrap();
        status.driver(NAME).unwrap().clone()
    }

    fn announcements(&self) -> u64 {
        self.driver().announcements
    }

    fn memory(&self) -> PathBuf {
        self.scene.node.runtime_dir().join(MEMORY)
    }
}

/// Runs a command that is `verify`.
#[track_caller]
fn run(command: &mut Command) -> Verdict {
    Verdict::of(&command.output().unwrap())
}

impl Verdict {
    fn of(output: &Output) -> Verdict {
        let text = stdout(output);
        let report = match text.is_empty() {
            true => Value::Null,
            false => serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")),
        };
        Verdict {
            code: output.status.code(),
            report,
            words: stderr(output),
        }
    }

    /// The exit code; all that was printed is in the message of a failure.
    #[track_caller]
    fn ends_with(&self, code: i32) -> &Verdict {
        assert_eq!(self.code, Some(code), "{} {}", self.report, self.words);
        self
    }

    /// These words are on stderr.
    #[track_caller]
    fn says(&self, words: &str) -> &Verdict {
        assert!(
            self.words.contains(words),
            "no {words:?} in: {}",
            self.words
        );
        self
    }

    /// The differences of the driver, as `what`, of the driver, of the cluster.
    fn differences(&self) -> Value {
        self.report["drivers"][0]["differences"].clone()
    }
}

/// A difference as JSON.
fn difference(what: &str, driver: Option<&str>, cluster: Option<&str>) -> Value {
    json!({"what": what, "driver": driver, "cluster": cluster})
}
