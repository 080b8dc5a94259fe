//! JSON: the fields with their types, and the words that some of them may have.

use std::fs;
use std::process::Output;

use bed::driver::{Answer, Probe};
use bed::scene::{NAME, OTHER, SOON};
use bed::{Behaviour, ClusterFinding, Scene, report_cluster};
use serde_json::Value;
use tonic::Code;

use crate::list::keeps;
use crate::setup;
use crate::shape::Shape;

/// A driver whose answers are errors.
const BROKEN: &str = "broken.csi.test";

fn parsed(output: &Output) -> Value {
    let parsed = serde_json::from_slice(&output.stdout);
    parsed.unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A node in which each value is known of one driver and not of another.
struct Stage {
    scene: Scene,
    good_config: String,
}

impl Stage {
    fn set() -> Stage {
        let more = "[cluster]\nkubeconfig = \"/nowhere\"\n";
        let scene = setup().drivers(&[NAME, OTHER, BROKEN]).more(more).set();
        let good_config = fs::read_to_string(scene.node.config_file()).unwrap();
        Stage { scene, good_config }
    }

    /// The daemon refuses a configuration, which is a note.
    fn refuse(&self) {
        let bad = format!("{}\n[nonsense]\n", self.good_config);
        self.scene.node.write_config(&bad);
        let refused = self.scene.registrar.run_cli(["reload"]);
        assert_eq!(refused.status.code(), Some(78), "{refused:?}");
    }

    fn repair(&self) {
        self.scene.node.write_config(&self.good_config);
    }
}

fn broken() -> Behaviour {
    Behaviour {
        get_plugin_info: Answer::Fails(Code::Internal),
        node_get_info: Answer::Fails(Code::Internal),
        probe: Probe::Fails(Code::Internal),
        ..Behaviour::named(BROKEN)
    }
}

#[test]
fn status_and_doctor_have_the_promised_fields() {
    let mut stage = Stage::set();
    stage.scene.registrar.start();
    stage.scene.wait_up();
    let run =
        |stage: &Stage, command: &str| parsed(&stage.scene.registrar.run_cli([command, "--json"]));
    let mut statuses = vec![run(&stage, "status")];
    let mut diagnoses = vec![run(&stage, "doctor")];
    let kubelet = stage.scene.node.kubelet();
    let _drivers = [
        stage.scene.node.driver(NAME),
        stage.scene.node.behaving(BROKEN, broken()),
    ];
    kubelet.wait_registered(NAME, SOON);
    stage.scene.phase(NAME, "registered");
    let has_error = |driver: &bed::DriverStatus| driver.last_error.is_some();
    stage
        .scene
        .registrar
        .wait_driver("an error", BROKEN, SOON, has_error);
    let found = ClusterFinding {
        driver: NAME.to_owned(),
        registrations: 1,
        in_cluster: true,
        difference: String::new(),
    };
    report_cluster(&stage.scene.control(), vec![found]).unwrap();
    stage.refuse();
    statuses.push(run(&stage, "status"));
    diagnoses.push(run(&stage, "doctor"));
    stage.repair();
    diagnoses.push(run(&stage, "doctor"));
    keeps("json:status", Shape::of(&[], &statuses).lines());
    let findings = diagnoses
        .iter()
        .flat_map(|diagnosis| diagnosis["findings"].as_array().unwrap());
    let levels = findings.map(|finding| finding["level"].as_str().unwrap().to_owned());
    keeps("level", levels);
    keeps("json:doctor", Shape::of(&[], &diagnoses).lines());
}

#[test]
fn inspect_has_the_promised_fields() {
    let scene = setup().drivers(&[]).set();
    let mut good = Behaviour::named(NAME).with_topology("topology.example/zone", "z1");
    // A rule that is broken, and is no error.
    good.vendor_version = String::new();
    good.controller = bed::driver::Controller::Elsewhere;
    let _drivers = [
        scene.node.behaving(NAME, good),
        scene.node.behaving(BROKEN, broken()),
    ];
    let inspections = [NAME, BROKEN].map(|id| {
        let socket = scene.node.csi_socket(id);
        parsed(
            &scene
                .registrar
                .run_cli(["inspect", "--json", socket.to_str().unwrap()]),
        )
    });
    // The keys of a topology are the driver's own.
    keeps(
        "json:inspect",
        Shape::of(&["topology"], &inspections).lines(),
    );
}

#[cfg(not(feature = "cluster"))]
#[test]
fn verify_has_the_promised_fields() {
    bed::skipped("the cargo feature cluster");
}

#[cfg(feature = "cluster")]
#[test]
fn verify_has_the_promised_fields() {
    use bed::ApiServer;
    use bed::api_server::State;
    use serde_json::json;

    const ZONE: &str = "topology.example/zone";
    let scene = setup().drivers(&[NAME, OTHER]).started();
    let kubelet = scene.node.kubelet();
    let mut behaviour = Behaviour::named(NAME).with_topology(ZONE, "z1");
    behaviour.max_volumes = 8;
    let _drivers = [
        scene.node.behaving(NAME, behaviour),
        scene.node.driver(OTHER),
    ];
    for name in [NAME, OTHER] {
        kubelet.wait_registered(name, SOON);
        scene.phase(name, "registered");
    }
    let server = ApiServer::start("node-1");
    let kubeconfig = server.kubeconfig().write(&scene.node.root().join("pki"));
    let verify = |change: fn(&mut State)| {
        server.change(|state| *state = State::of("node-1"));
        server.mirror(&kubelet.cluster());
        server.change(change);
        let mut command = scene.registrar.command("verify");
        command.arg("--json").arg("--kubeconfig").arg(&kubeconfig);
        parsed(&command.output().unwrap())
    };
    let reports = [
        // No driver has a CSIDriver object.
        verify(|state| {
            state.unlist(NAME);
            state.annotations().clear();
            state.labels().remove(ZONE);
        }),
        verify(|state| {
            state.change_listed(NAME, |listed| {
                listed["nodeID"] = "id-9".into();
                listed["topologyKeys"] = json!(["rack"]);
                listed["allocatable"] = json!({"count": 9});
            });
            state.change_listed(OTHER, |listed| listed["topologyKeys"] = json!(["rack"]));
        }),
    ];
    keeps("json:verify", Shape::of(&[], &reports).lines());
    let drivers = reports
        .iter()
        .flat_map(|report| report["drivers"].as_array().unwrap());
    let differences = drivers.flat_map(|driver| driver["differences"].as_array().unwrap());
    let words = differences.map(|found| found["what"].as_str().unwrap().to_owned());
    keeps("what", words);
}
