//! The objects of one node as the API server has them, and the faults beside them.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::fault::{Door, Fault};
use crate::kubelet::Cluster;

/// The annotation of a Node in which the kubelet writes each driver's node id.
const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";
/// The uid of the Node that [`node`] makes, and of the owner in [`csi_node`].
const UID: &str = "8f7b3c52-0d51-4d2e-9d5e-3a1f6f0c2b11";
/// The newest release that the server plays.
const NEWEST: u32 = 36;

/// Everything that a test can choose about the server. In a file it is JSON with these keys.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct State {
    /// The CSINode, if it exists.
    pub csi_node: Option<Value>,
    /// The Node, if it exists.
    pub node: Option<Value>,
    /// The CSIDrivers by name.
    pub csi_drivers: BTreeMap<String, Value>,
    /// The server's release is 1.MINOR.
    pub minor: u32,
    /// Faults by the beginning of the path.
    pub faults: BTreeMap<String, Fault>,
    /// What happens to a new connection.
    pub door: Door,
}

impl Default for State {
    fn default() -> Self {
        Self {
            csi_node: None,
            node: None,
            csi_drivers: BTreeMap::new(),
            minor: NEWEST,
            faults: BTreeMap::new(),
            door: Door::Open,
        }
    }
}

/// One element of CSINode's `spec.drivers`.
#[derive(Clone, Debug)]
pub struct ListedDriver<'a> {
    /// The driver's name.
    pub name: &'a str,
    /// The driver's id of the node.
    pub node_id: &'a str,
    /// The keys of its topology.
    pub topology_keys: &'a [&'a str],
    /// `allocatable.count`; none leaves it out, as the kubelet does for a driver without a limit.
    pub limit: Option<i64>,
}

impl State {
    /// A CSINode and a Node of this name, without drivers.
    pub fn of(name: &str) -> Self {
        Self {
            csi_node: Some(csi_node(name, &[])),
            node: Some(node(name, &BTreeMap::new(), &BTreeMap::new())),
            ..Self::default()
        }
    }

    /// The fault for this path.
    pub(super) fn fault(&self, path: &str) -> Option<&Fault> {
        let fitting = self
            .faults
            .iter()
            .filter(|(start, _)| path.starts_with(*start));
        fitting
            .max_by_key(|(start, _)| start.len())
            .map(|(_, fault)| fault)
    }

    /// As kubelets do: one creates the CSINode that it needs, and never the Node.
    pub(super) fn mirror(&mut self, name: &str, cluster: &Cluster) {
        if !cluster.csi_node.is_empty() {
            self.csi_node.get_or_insert_with(|| csi_node(name, &[]));
        }
        if let Some(csi_node) = &mut self.csi_node {
            let drivers = cluster.csi_node.iter().map(|(name, entry)| {
                let keys: Vec<&str> = entry.topology_keys.iter().map(String::as_str).collect();
                listed(&ListedDriver {
                    name,
                    node_id: &entry.node_id,
                    topology_keys: &keys,
                    limit: (entry.max_volumes > 0).then_some(entry.max_volumes),
                })
            });
            csi_node["spec"]["drivers"] = drivers.collect();
        }
        if let Some(node) = &mut self.node {
            write_node(node, &cluster.node_ids, &cluster.labels);
        }
    }

    /// Changes a driver's element in CSINode's `spec.drivers`.
    ///
    /// # Panics
    /// If CSINode does not exist or does not list the driver.
    pub fn change_listed(&mut self, driver: &str, change: impl FnOnce(&mut Value)) {
        let csi_node = self.csi_node.as_mut().expect("CSINode exists");
        let drivers = csi_node["spec"]["drivers"].as_array_mut().unwrap();
        let listed = drivers.iter_mut().find(|listed| listed["name"] == driver);
        change(listed.expect("CSINode lists the driver"));
    }

    /// Takes a driver out of CSINode's `spec.drivers`.
    ///
    /// # Panics
    /// If CSINode does not exist.
    pub fn unlist(&mut self, driver: &str) {
        let csi_node = self.csi_node.as_mut().expect("CSINode exists");
        let drivers = csi_node["spec"]["drivers"].as_array_mut().unwrap();
        drivers.retain(|listed| listed["name"] != driver);
    }

    /// The Node's labels, for a change.
    ///
    /// # Panics
    /// If the Node does not exist.
    pub fn labels(&mut self) -> &mut Map<String, Value> {
        let node = self.node.as_mut().expect("the Node exists");
        node["metadata"]["labels"].as_object_mut().unwrap()
    }

    /// The Node's annotations, for a change.
    ///
    /// # Panics
    /// If the Node does not exist.
    pub fn annotations(&mut self) -> &mut Map<String, Value> {
        let node = self.node.as_mut().expect("the Node exists");
        node["metadata"]["annotations"].as_object_mut().unwrap()
    }
}

/// A CSINode that belongs to the Node that [`node`] makes.
pub fn csi_node(name: &str, drivers: &[ListedDriver<'_>]) -> Value {
    let drivers: Vec<Value> = drivers.iter().map(listed).collect();
    json!({
        "kind": "CSINode",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {
            "name": name,
            "uid": "2c1de0b5-6f0f-4a53-8d34-1c7e3f8e5a01",
            "resourceVersion": "412",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": UID}],
        },
        "spec": {"drivers": drivers},
    })
}

/// A Node with these node ids in the kubelet's annotation, and these labels.
pub fn node(
    name: &str,
    node_ids: &BTreeMap<String, String>,
    labels: &BTreeMap<String, String>,
) -> Value {
    let mut node = json!({
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": UID,
            "resourceVersion": "415",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {},
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"bootID": boot_id()}},
    });
    node["metadata"]["labels"]["kubernetes.io/hostname"] = name.into();
    write_node(&mut node, node_ids, labels);
    node
}

/// A kubelet reports the boot that it runs in.
fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    id.trim().to_owned()
}

/// A CSIDriver.
pub fn csi_driver(name: &str, attach_required: bool) -> Value {
    json!({
        "kind": "CSIDriver",
        "apiVersion": "storage.k8s.io/v1",
        "metadata": {"name": name, "uid": "5d7c7a3e-52c4-4d39-9f7e-6a0f5b8d4c02"},
        "spec": {"attachRequired": attach_required, "podInfoOnMount": false},
    })
}

fn listed(driver: &ListedDriver<'_>) -> Value {
    let mut listed = json!({
        "name": driver.name,
        "nodeID": driver.node_id,
        "topologyKeys": driver.topology_keys,
    });
    if driver.topology_keys.is_empty() {
        listed["topologyKeys"] = Value::Null;
    }
    if let Some(limit) = driver.limit {
        listed["allocatable"] = json!({"count": limit});
    }
    listed
}

/// Writes as a kubelet does: it removes no label, and an annotation that would be empty.
fn write_node(
    node: &mut Value,
    node_ids: &BTreeMap<String, String>,
    labels: &BTreeMap<String, String>,
) {
    for (key, value) in labels {
        node["metadata"]["labels"][key] = value.as_str().into();
    }
    let annotations = node["metadata"]["annotations"].as_object_mut().unwrap();
    match node_ids.is_empty() {
        true => drop(annotations.remove(NODE_IDS)),
        false => {
            let text = serde_json::to_string(node_ids).unwrap();
            annotations.insert(NODE_IDS.to_owned(), text.into());
        }
    }
}
