//! Every difference between a driver and the cluster, as a table.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use super::*;

const NAME: &str = "a.csi";

fn status() -> Status {
    let driver = Driver {
        id: "a".to_owned(),
        name: Some(NAME.to_owned()),
        phase: Phase::Registered.to_string(),
        since: "2026-01-01T00:00:00Z".to_owned(),
        answering: true,
        registrations: 1,
        registered_node_id: Some("n1".to_owned()),
        registered_topology: [("zone".to_owned(), "z1".to_owned())].into(),
        registered_volume_limit: Some(8),
        volume_limit: Some(8),
        ..Driver::default()
    };
    Status {
        drivers: vec![driver],
        ..Status::default()
    }
}

/// The entry of the driver in CSINode, as the API server writes it.
fn entry() -> Value {
    json!({"name": NAME, "nodeID": "n1", "topologyKeys": ["zone"], "allocatable": {"count": 8}})
}

fn csi_node(drivers: &Value) -> CSINode {
    let object = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "node-1", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": "uid-1"},
        ]},
        "spec": {"drivers": drivers},
    });
    serde_json::from_value(object).unwrap()
}

fn csi_driver(attach_required: Option<bool>) -> CSIDriver {
    let mut driver = CSIDriver::default();
    driver.spec.attach_required = attach_required;
    driver
}

fn objects() -> Objects {
    let node = Node {
        metadata: ObjectMeta {
            name: Some("node-1".to_owned()),
            uid: Some("uid-1".to_owned()),
            annotations: Some(
                [(
                    NODE_ID_ANNOTATION.to_owned(),
                    r#"{"a.csi":"n1"}"#.to_owned(),
                )]
                .into(),
            ),
            labels: Some([("zone".to_owned(), "z1".to_owned())].into()),
            ..ObjectMeta::default()
        },
        ..Node::default()
    };
    Objects {
        node: Some(node),
        csi_node: Some(csi_node(&json!([entry()]))),
        csi_drivers: [(NAME.to_owned(), Some(csi_driver(Some(false))))].into(),
        without_attacher: BTreeSet::new(),
    }
}

fn found(status: &Status, objects: &Objects) -> Report {
    let drivers = registered(status).unwrap();
    compare("node-1", "https://here", &drivers, objects)
}

/// The differences as `what driver cluster`, with `-` for none.
fn differences(report: &Report) -> Vec<String> {
    let all = report.drivers.iter().flat_map(|driver| &driver.differences);
    let text = |side: &Option<String>| side.clone().unwrap_or_else(|| "-".to_owned());
    all.map(|found| {
        let what = serde_json::to_value(found.what).unwrap();
        let what = what.as_str().unwrap();
        format!("{what} {} {}", text(&found.driver), text(&found.cluster))
    })
    .collect()
}

/// Changes the cluster.
type Change = fn(&mut Objects);

fn node(objects: &mut Objects) -> &mut ObjectMeta {
    &mut objects.node.as_mut().unwrap().metadata
}

fn listed(objects: &mut Objects) -> &mut CSINodeDriver {
    &mut objects.csi_node.as_mut().unwrap().spec.drivers[0]
}

#[test]
fn each_difference_is_found_and_nothing_else() {
    let table: &[(&str, Change, bool, &[&str])] = &[
        ("nothing", |_| {}, true, &[]),
        (
            "CSINode is gone",
            |o| o.csi_node = None,
            false,
            &["missing n1 -"],
        ),
        (
            "CSINode lists no driver",
            |o| o.csi_node = Some(csi_node(&json!(null))),
            false,
            &["missing n1 -"],
        ),
        (
            "CSINode lists others",
            |o| listed(o).name = "b.csi".to_owned(),
            false,
            &["missing n1 -"],
        ),
        (
            "another node id",
            |o| listed(o).node_id = "n2".to_owned(),
            false,
            &["node-id n1 n2"],
        ),
        (
            "no topology keys",
            |o| listed(o).topology_keys = None,
            false,
            &["topology-keys zone -"],
        ),
        (
            "other topology keys",
            |o| listed(o).topology_keys = Some(vec!["rack".to_owned(), "zone".to_owned()]),
            false,
            &["topology-keys zone rack, zone"],
        ),
        (
            "no annotation",
            |o| node(o).annotations = None,
            false,
            &["annotation n1 -"],
        ),
        (
            "an annotation that is no map",
            |o| {
                node(o).annotations = Some([(NODE_ID_ANNOTATION.to_owned(), "[".to_owned())].into())
            },
            false,
            &["annotation n1 -"],
        ),
        (
            "an annotation with another id",
            |o| {
                let text = r#"{"a.csi":"n2"}"#.to_owned();
                node(o).annotations = Some([(NODE_ID_ANNOTATION.to_owned(), text)].into());
            },
            false,
            &["annotation n1 n2"],
        ),
        (
            "no label",
            |o| node(o).labels = None,
            false,
            &["topology-label zone=z1 -"],
        ),
        (
            "a label with another value",
            |o| node(o).labels = Some([("zone".to_owned(), "z2".to_owned())].into()),
            false,
            &["topology-label zone=z1 zone=z2"],
        ),
        (
            "another limit",
            |o| listed(o).allocatable.as_mut().unwrap().count = Some(5),
            true,
            &["limit 8 5"],
        ),
        (
            "no limit",
            |o| listed(o).allocatable = None,
            true,
            &["limit 8 -"],
        ),
        (
            "a CSIDriver that is not known",
            |o| o.csi_drivers.clear(),
            true,
            &[],
        ),
        (
            "no CSIDriver",
            |o| drop(o.csi_drivers.insert(NAME.to_owned(), None)),
            true,
            &["csidriver a.csi -"],
        ),
        (
            "a CSIDriver that waits for an attacher that exists",
            |o| {
                drop(
                    o.csi_drivers
                        .insert(NAME.to_owned(), Some(csi_driver(None))),
                )
            },
            true,
            &[],
        ),
        (
            "a CSIDriver that waits for an attacher that does not exist",
            |o| {
                o.csi_drivers
                    .insert(NAME.to_owned(), Some(csi_driver(None)));
                o.without_attacher.insert(NAME.to_owned());
            },
            true,
            &["csidriver attachRequired: false attachRequired: true"],
        ),
        (
            "a CSIDriver that does not wait",
            |o| o.without_attacher.extend([NAME.to_owned()]),
            true,
            &[],
        ),
        ("the Node is gone", |o| o.node = None, false, &[]),
    ];
    for (words, change, agrees, expected) in table {
        let mut objects = objects();
        change(&mut objects);
        let report = found(&status(), &objects);
        assert_eq!(differences(&report), *expected, "{words}");
        assert_eq!(report.agrees, *agrees, "{words}");
        assert_eq!(report.node_found, objects.node.is_some(), "{words}");
        assert!(!report.stale_owner, "{words}");
    }
}

#[test]
fn a_limit_that_the_kubelet_has_updated_is_no_difference() {
    let mut status = status();
    status.drivers[0].volume_limit = Some(5);
    let mut objects = objects();
    listed(&mut objects).allocatable.as_mut().unwrap().count = Some(5);
    assert_eq!(differences(&found(&status, &objects)), [""; 0]);
    // A daemon that does not tell the limit makes no difference either.
    status.drivers[0].registered_volume_limit = None;
    status.drivers[0].volume_limit = None;
    assert_eq!(differences(&found(&status, &objects)), [""; 0]);
}

#[test]
fn only_registered_drivers_count_and_those_of_others_do_not() {
    let mut status = status();
    let others = json!([entry(), {"name": "b.csi", "nodeID": "x", "topologyKeys": null}]);
    let mut objects = objects();
    objects.csi_node = Some(csi_node(&others));
    assert!(found(&status, &objects).agrees);
    for phase in Phase::ALL
        .into_iter()
        .filter(|phase| *phase != Phase::Registered)
    {
        status.drivers[0].phase = phase.to_string();
        let report = found(&status, &Objects::default());
        assert!(report.drivers.is_empty() && report.agrees, "{phase}");
    }
}

#[test]
fn an_owner_that_is_not_the_present_node_is_stale() {
    let mut objects = objects();
    node(&mut objects).uid = Some("uid-2".to_owned());
    let report = found(&status(), &objects);
    assert!(report.stale_owner && report.agrees, "{report:?}");
    // Without an owner nothing is collected, and without a Node no owner can be compared.
    let csi_node = objects.csi_node.as_mut().unwrap();
    let owner = csi_node.metadata.owner_references.take();
    assert!(!found(&status(), &objects).stale_owner);
    let other = OwnerReference {
        kind: "Other".to_owned(),
        ..owner.unwrap().remove(0)
    };
    objects.csi_node.as_mut().unwrap().metadata.owner_references = Some(vec![other]);
    assert!(!found(&status(), &objects).stale_owner);
    objects.node = None;
    assert!(!found(&status(), &objects).stale_owner);
}

#[test]
fn the_json_is_as_promised() {
    let mut objects = objects();
    objects.csi_node = None;
    objects.csi_drivers.insert(NAME.to_owned(), None);
    let json = serde_json::to_value(found(&status(), &objects)).unwrap();
    assert_eq!(
        json,
        json!({
            "node": "node-1",
            "server": "https://here",
            "agrees": false,
            "node_found": true,
            "stale_owner": false,
            "drivers": [{
                "name": "a.csi",
                "agrees": false,
                "repaired": false,
                "differences": [
                    {"what": "missing", "driver": "n1", "cluster": null},
                    {"what": "csidriver", "driver": "a.csi", "cluster": null},
                ],
            }],
        })
    );
}

#[test]
fn a_daemon_that_does_not_say_with_what_a_driver_was_registered_is_too_old() {
    let mut status = status();
    status.drivers[0].registered_node_id = None;
    assert_eq!(registered(&status), None);
    status.drivers[0].phase = Phase::Withdrawn.to_string();
    assert_eq!(registered(&status), Some(vec![]));
    assert_eq!(
        unregistered(&status),
        [("a".to_owned(), "withdrawn".to_owned())]
    );
}

#[test]
fn a_limit_is_compared_as_the_kubelet_writes_it() {
    let mut status = status();
    let mut objects = objects();
    status.drivers[0].registered_volume_limit = Some(5_000_000_000);
    listed(&mut objects).allocatable.as_mut().unwrap().count = Some(i32::MAX);
    assert_eq!(differences(&found(&status, &objects)), [""; 0]);
}

#[test]
fn words_about_a_lost_driver_leave_out_what_follows_from_the_loss() {
    let mut objects = objects();
    objects.csi_node = None;
    node(&mut objects).annotations = None;
    let report = found(&status(), &objects);
    assert_eq!(differences(&report), ["missing n1 -", "annotation n1 -"]);
    assert_eq!(
        report.drivers[0].disagreement("node-1", true),
        "CSINode node-1 does not list it"
    );
}
