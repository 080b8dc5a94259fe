//! What is compared: the report, the exit code, and what the daemon shows of it.

use bed::api_server::{Fault, State, csi_driver, csi_node};
use bed::scene::{NAME, OTHER, SOON, reason};
use bed::{Registrar, Scene, registrar, script, stdout};
use serde_json::{Value, json};

use super::{NODE, Stage, ZONE, difference};
use crate::PROGRAM;

const ANNOTATION: &str = "csi.volume.kubernetes.io/nodeid";

#[test]
fn the_cluster_agrees_with_what_the_kubelet_wrote() {
    let stage = Stage::set();
    let verdict = stage.verify(&[]);
    verdict.ends_with(0);
    assert_eq!(
        verdict.report,
        json!({
            "node": NODE, "server": stage.server.url(), "agrees": true, "node_found": true, "stale_owner": false,
            "drivers": [{"name": NAME, "agrees": true, "repaired": false, "differences": []}],
        })
    );
    assert_eq!(verdict.words, "");
    let driver = stage.driver();
    assert_eq!(driver.in_cluster, Some(true));
    assert!(driver.cluster_checked.is_some());
    assert!(
        reason(&driver).contains("; in the cluster, checked "),
        "{driver:?}"
    );
    assert_eq!(driver.announcements, 1);
}

#[test]
fn it_asks_who_it_is_and_gets_three_objects_from_the_servers_cache() {
    let stage = Stage::set();
    stage.verify(&[]).ends_with(0);
    let requests = stage.server.take_requests();
    let asked: Vec<_> = requests
        .iter()
        .map(|request| (&*request.method, request.route()))
        .collect();
    assert_eq!(
        asked,
        [
            ("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews"),
            ("GET", "/api/v1/nodes/node-1"),
            ("GET", "/apis/storage.k8s.io/v1/csinodes/node-1"),
            (
                "GET",
                &*format!("/apis/storage.k8s.io/v1/csidrivers/{NAME}")
            ),
        ]
    );
    for request in requests {
        assert_eq!(request.user.as_deref(), Some("system:node:node-1"));
        assert_eq!(
            request.method == "GET",
            request.asks("resourceVersion=0"),
            "{request:?}"
        );
    }
    stage.verify(&["--node", NODE]).ends_with(0);
    assert_eq!(stage.server.take_requests().len(), 3);
}

#[test]
fn a_cache_that_is_behind_is_no_difference() {
    let stage = Stage::set();
    // What the cache has: the kubelet's last write is not there yet.
    let stale = csi_node(NODE, &[]);
    let path = "/apis/storage.k8s.io/v1/csinodes/node-1?resourceVersion=0";
    stage.server.fault(path, Fault::Object(stale));
    let verdict = stage.verify(&[]);
    verdict.ends_with(0);
    assert_eq!(verdict.differences(), json!([]));
    assert_eq!(stage.driver().in_cluster, Some(true));
    let requests = stage.server.requests();
    let current = requests.iter().filter(|request| request.method == "GET");
    let current = current.filter(|request| !request.asks("resourceVersion=0"));
    assert!(current.count() >= 1);
    // Its own name does not change between two looks.
    let reviews = requests.iter().filter(|request| request.method == "POST");
    assert_eq!(reviews.count(), 1);
}

/// A change of the cluster, and what verify makes of it.
struct Case {
    change: fn(&mut State),
    differences: fn() -> Value,
    code: i32,
    in_cluster: bool,
    /// In the daemon's reason.
    reason: &'static str,
}

#[test]
fn each_difference_is_told_in_json_in_the_exit_code_and_in_the_status() {
    let stage = Stage::set();
    let mark = stage.scene.kubelet.mark();
    let cases = [
        Case {
            change: |state| state.unlist(NAME),
            differences: || json!([difference("missing", Some(NODE), None)]),
            code: 1,
            in_cluster: false,
            reason: ", but CSINode node-1 does not list it (checked ",
        },
        Case {
            change: |state| state.csi_node = None,
            differences: || json!([difference("missing", Some(NODE), None)]),
            code: 1,
            in_cluster: false,
            reason: ", but CSINode node-1 does not list it (checked ",
        },
        Case {
            change: |state| state.change_listed(NAME, |listed| listed["nodeID"] = "id-9".into()),
            differences: || json!([difference("node-id", Some(NODE), Some("id-9"))]),
            code: 1,
            in_cluster: false,
            reason: ", but CSINode node-1 has the node id \"id-9\" for it, and not \"node-1\"",
        },
        Case {
            change: |state| {
                let keys = json!(["rack", "topology.example/zone"]);
                state.change_listed(NAME, |listed| listed["topologyKeys"] = keys);
            },
            differences: || {
                let in_cluster = format!("rack, {ZONE}");
                json!([difference("topology-keys", Some(ZONE), Some(&in_cluster))])
            },
            code: 1,
            in_cluster: true,
            reason: "has the topology keys",
        },
        Case {
            change: |state| {
                state.change_listed(NAME, |listed| listed["topologyKeys"] = Value::Null)
            },
            differences: || json!([difference("topology-keys", Some(ZONE), None)]),
            code: 1,
            in_cluster: true,
            reason: "has the topology keys",
        },
        Case {
            change: |state| drop(state.annotations().remove(ANNOTATION)),
            differences: || json!([difference("annotation", Some(NODE), None)]),
            code: 1,
            in_cluster: true,
            reason: "annotation of Node node-1",
        },
        Case {
            change: |state| {
                let ids = json!({NAME: "id-9", "other": "id-8"}).to_string();
                state
                    .annotations()
                    .insert(ANNOTATION.to_owned(), ids.into());
            },
            differences: || json!([difference("annotation", Some(NODE), Some("id-9"))]),
            code: 1,
            in_cluster: true,
            reason: "\"id-9\"",
        },
        Case {
            change: |state| {
                let torn = "{\"local.csi".into();
                state.annotations().insert(ANNOTATION.to_owned(), torn);
            },
            differences: || json!([difference("annotation", Some(NODE), None)]),
            code: 1,
            in_cluster: true,
            reason: "annotation of Node node-1",
        },
        Case {
            change: |state| drop(state.labels().remove(ZONE)),
            differences: || {
                let label = format!("{ZONE}=z1");
                json!([difference("topology-label", Some(&label), None)])
            },
            code: 1,
            in_cluster: true,
            reason: "topology.example/zone=z1",
        },
        Case {
            change: |state| drop(state.labels().insert(ZONE.to_owned(), "z2".into())),
            differences: || {
                let (ours, theirs) = (format!("{ZONE}=z1"), format!("{ZONE}=z2"));
                json!([difference("topology-label", Some(&ours), Some(&theirs))])
            },
            code: 1,
            in_cluster: true,
            reason: "topology.example/zone=z2",
        },
        Case {
            change: |state| {
                let count = json!({"count": 9});
                state.change_listed(NAME, |listed| listed["allocatable"] = count);
            },
            differences: || json!([difference("limit", Some("8"), Some("9"))]),
            code: 0,
            in_cluster: true,
            reason: "; in the cluster, checked ",
        },
        Case {
            change: |state| state.csi_drivers.clear(),
            differences: || json!([difference("csidriver", Some(NAME), None)]),
            code: 0,
            in_cluster: true,
            reason: "; in the cluster, checked ",
        },
        Case {
            change: |state| {
                let object = csi_driver(NAME, true);
                state.csi_drivers.insert(NAME.to_owned(), object);
            },
            differences: || {
                let (ours, theirs) = ("attachRequired: false", "attachRequired: true");
                json!([difference("csidriver", Some(ours), Some(theirs))])
            },
            code: 0,
            in_cluster: true,
            reason: "; in the cluster, checked ",
        },
    ];
    for case in cases {
        stage.restore();
        stage.change(case.change);
        let verdict = stage.verify(&[]);
        let expected = (case.differences)();
        assert_eq!(verdict.differences(), expected, "{}", verdict.words);
        verdict.ends_with(case.code);
        let agrees = Value::Bool(case.code == 0);
        assert_eq!(verdict.report["agrees"], agrees);
        assert_eq!(verdict.report["drivers"][0]["agrees"], agrees);
        assert_eq!(verdict.report["node_found"], true);
        let driver = stage.driver();
        assert_eq!(driver.phase, "registered");
        assert_eq!(driver.in_cluster, Some(case.in_cluster), "{expected}");
        assert!(
            reason(&driver).contains(case.reason),
            "{expected}: {driver:?}"
        );
    }
    // The report is no event for any driver.
    assert_eq!(stage.announcements(), 1);
    assert_eq!(stage.scene.kubelet.counts_since(mark), Default::default());
    stage.restore();
    stage.verify(&[]).ends_with(0);
    assert_eq!(stage.driver().in_cluster, Some(true));
}

#[test]
fn a_missing_node_and_a_csinode_of_an_earlier_node_are_named() {
    let stage = Stage::set();
    stage.change(|state| {
        let node = state.node.as_mut().unwrap();
        node["metadata"]["uid"] = "another-uid".into();
    });
    let verdict = stage.verify(&[]);
    // CSINode is still as it should be: it is lost when it is collected.
    verdict.ends_with(0);
    assert_eq!(verdict.report["stale_owner"], true);
    assert_eq!(verdict.report["drivers"][0]["differences"], json!([]));

    stage.change(|state| state.node = None);
    let verdict = stage.verify(&[]);
    verdict.ends_with(1);
    assert_eq!(verdict.report["node_found"], false);
    assert_eq!(verdict.report["agrees"], false);
}

#[test]
fn drivers_that_others_register_are_not_compared() {
    let stage = Stage::set();
    stage.change(|state| {
        let drivers = &mut state.csi_node.as_mut().unwrap()["spec"]["drivers"];
        let other = json!({"name": "csi.example", "nodeID": "id-7", "topologyKeys": null});
        drivers.as_array_mut().unwrap().push(other);
    });
    let verdict = stage.verify(&[]);
    verdict.ends_with(0);
    assert_eq!(verdict.report["drivers"].as_array().unwrap().len(), 1);
}

#[test]
fn the_text_says_what_differs_and_what_fixes_it() {
    let stage = Stage::set();
    let text = || {
        let mut command = stage.scene.registrar.command("verify");
        let output = command.arg("--kubeconfig").arg(&stage.kubeconfig).output();
        stdout(&output.unwrap())
    };
    let well = text();
    assert!(
        well.contains(&stage.server.url()) && well.contains("The cluster agrees"),
        "{well}"
    );
    stage.change(|state| state.unlist(NAME));
    let lost = text();
    assert!(lost.contains("CSINode node-1 does not list it"), "{lost}");
    assert!(lost.contains("verify --repair"), "{lost}");
}

#[test]
fn a_driver_that_is_not_registered_is_not_compared() {
    let mut stage = Stage::set();
    stage.change(|state| state.unlist(NAME));
    stage.scene.registrar.succeed(&["withdraw", NAME]);
    stage.scene.kubelet.wait_deregistered(NAME, SOON);
    let verdict = stage.verify(&["--repair"]);
    verdict.ends_with(0);
    assert_eq!(verdict.report["drivers"], json!([]));
    assert_eq!(stage.driver().in_cluster, None);

    stage.scene.registrar.stop();
    let verdict = stage.verify(&[]);
    verdict.ends_with(1).says("is not running");
    assert_eq!(verdict.report, Value::Null);
}

#[test]
fn a_registrar_without_the_program_says_where_it_should_be() {
    let mut stage = Stage::set();
    let alone = stage.scene.node.root().join("alone");
    script::copy(&registrar::chosen(PROGRAM), &alone);
    stage.scene.registrar.stop();
    stage.scene.registrar = Registrar::exactly(alone, &stage.scene.node);
    let program = stage.scene.node.root().join("verify");
    let verdict = stage.verify(&[]);
    verdict.ends_with(69).says("the cluster could not be asked");
    verdict.says(&format!("{} does not exist", program.display()));
}

#[test]
fn one_of_two_drivers_is_missing() {
    let stage = Stage::set();
    let Stage { scene, .. } = &stage;
    let Scene {
        node, registrar, ..
    } = scene;
    let config = format!(
        "{}\n{}",
        node.default_config(&[NAME, OTHER]),
        bed::scene::KEEP
    );
    node.write_config(&config);
    registrar.succeed(&["reload"]);
    let _other = node.driver(OTHER);
    scene.kubelet.wait_registered(OTHER, SOON);
    registrar.wait_phase(OTHER, "registered", SOON);
    stage.restore();
    stage.change(|state| state.unlist(OTHER));
    let verdict = stage.verify(&[]);
    verdict.ends_with(1);
    let drivers = verdict.report["drivers"].as_array().unwrap();
    let agreeing: Vec<_> = drivers
        .iter()
        .map(|driver| (&driver["name"], &driver["agrees"]))
        .collect();
    assert_eq!(
        agreeing,
        [(&json!(NAME), &json!(true)), (&json!(OTHER), &json!(false))]
    );
    let status = registrar.status().unwrap();
    let in_cluster = |id| status.driver(id).unwrap().in_cluster;
    assert_eq!(
        (in_cluster(NAME), in_cluster(OTHER)),
        (Some(true), Some(false))
    );
}
