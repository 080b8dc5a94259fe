//! The comparison of the registered drivers with the objects of the cluster: a pure function.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSINodeDriver};

use super::report::{Difference, DriverReport, Report, What};
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};

/// The annotation of a Node with the node id of each of its drivers.
const NODE_ID_ANNOTATION: &str = "csi.volume.kubernetes.io/nodeid";

/// The objects of the cluster that speak of this node's drivers; none for an object that does not exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) node: Option<Node>,
    pub(crate) csi_node: Option<CSINode>,
    /// By the driver's name. A driver is not in it if it is not known whether its object exists.
    pub(crate) csi_drivers: BTreeMap<String, Option<CSIDriver>>,
    /// The drivers that cannot attach a volume, as far as they were asked.
    pub(crate) without_attacher: BTreeSet<String>,
}

impl DriverReport {
    /// CSINode lists the driver with the node id that it was registered with.
    pub(crate) fn is_in_cluster(&self) -> bool {
        !self.is_lost()
    }

    /// What the cluster has otherwise, in words that follow "but"; empty if the cluster agrees.
    pub(crate) fn disagreement(&self, node: &str, node_found: bool) -> String {
        let differences = self.shown().filter(|found| found.what.is_disagreement());
        let missing = (!node_found).then(|| format!("the Node object {node} does not exist"));
        let words = differences.map(|found| found.words(node)).chain(missing);
        words.collect::<Vec<_>>().join("; ")
    }
}

/// A driver as the kubelet has registered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) csi_socket: String,
    /// Tells this registration from every other of the driver.
    pub(crate) registrations: u64,
    pub(crate) since: Option<Timestamp>,
    pub(crate) answering: bool,
    node_id: String,
    topology: BTreeMap<String, String>,
    /// None where the daemon does not say; 0 is no limit.
    limit: Option<i64>,
    /// The limit that the driver reports now.
    limit_now: Option<i64>,
}

impl Registered {
    /// None if the daemon does not say with what the driver was registered.
    fn of(driver: &Driver) -> Option<Registered> {
        Some(Registered {
            id: driver.id.clone(),
            name: driver.name.clone()?,
            csi_socket: driver.csi_socket.clone(),
            registrations: driver.registrations,
            since: driver.since.parse().ok(),
            answering: driver.answering,
            node_id: driver.registered_node_id.clone()?,
            topology: driver.registered_topology.clone(),
            limit: driver.registered_volume_limit.map(as_written),
            limit_now: driver.volume_limit.map(as_written),
        })
    }
}

/// The drivers of a status that are registered; none if the daemon is too old to say with what.
pub(crate) fn registered(status: &Status) -> Option<Vec<Registered>> {
    let drivers = status.drivers.iter();
    let drivers = drivers.filter(|driver| driver.phase == Phase::Registered.as_str());
    drivers.map(Registered::of).collect()
}

/// The ids and phases of the others.
pub(crate) fn unregistered(status: &Status) -> Vec<(String, String)> {
    let drivers = status.drivers.iter();
    let others = drivers.filter(|driver| driver.phase != Phase::Registered.as_str());
    let others = others.map(|driver| (driver.id.clone(), driver.phase.clone()));
    others.collect()
}

/// What the cluster has of the registered drivers of the node with this name.
pub(crate) fn compare(
    node: &str,
    server: &str,
    drivers: &[Registered],
    objects: &Objects,
) -> Report {
    let drivers = drivers.iter().map(|driver| {
        let differences = differences(driver, objects);
        DriverReport {
            name: driver.name.clone(),
            agrees: !differences.iter().any(|found| found.what.is_disagreement()),
            repaired: false,
            differences,
        }
    });
    let drivers: Vec<DriverReport> = drivers.collect();
    let node_found = objects.node.is_some();
    Report {
        node: node.to_owned(),
        server: server.to_owned(),
        // Without a driver there is nothing that the cluster could have lost.
        agrees: drivers.iter().all(|driver| driver.agrees) && (node_found || drivers.is_empty()),
        node_found,
        stale_owner: has_stale_owner(objects),
        drivers,
    }
}

fn differences(driver: &Registered, objects: &Objects) -> Vec<Difference> {
    let mut found = match listed(driver, objects) {
        Some(listed) => listed_differences(driver, listed),
        None => vec![Difference {
            what: What::Missing,
            driver: Some(driver.node_id.clone()),
            cluster: None,
        }],
    };
    if let Some(node) = &objects.node {
        found.extend(annotation(driver, node));
        found.extend(labels(driver, node));
    }
    found.extend(csi_driver(driver, objects));
    found
}

fn listed<'a>(driver: &Registered, objects: &'a Objects) -> Option<&'a CSINodeDriver> {
    let mut listed = objects.csi_node.iter().flat_map(|node| &node.spec.drivers);
    listed.find(|listed| listed.name == driver.name)
}

fn listed_differences(driver: &Registered, listed: &CSINodeDriver) -> Vec<Difference> {
    let mut found = Vec::new();
    if listed.node_id != driver.node_id {
        found.push(Difference {
            what: What::NodeId,
            driver: Some(driver.node_id.clone()),
            cluster: Some(listed.node_id.clone()),
        });
    }
    let keys: BTreeSet<&str> = driver.topology.keys().map(String::as_str).collect();
    let in_cluster = listed.topology_keys.iter().flatten().map(String::as_str);
    let in_cluster: BTreeSet<&str> = in_cluster.collect();
    if keys != in_cluster {
        found.push(Difference {
            what: What::TopologyKeys,
            driver: joined(&keys),
            cluster: joined(&in_cluster),
        });
    }
    found.extend(limit(driver, listed));
    found
}

fn joined(keys: &BTreeSet<&str>) -> Option<String> {
    let keys: Vec<&str> = keys.iter().copied().collect();
    (!keys.is_empty()).then(|| keys.join(", "))
}

/// A limit as the kubelet writes it, into 32 bits.
fn as_written(limit: i64) -> i64 {
    limit.clamp(0, i32::MAX.into())
}

/// A kubelet from 1.36 on may have taken the limit that the driver has now.
fn limit(driver: &Registered, listed: &CSINodeDriver) -> Option<Difference> {
    let count = listed.allocatable.as_ref().and_then(|has| has.count);
    let in_cluster = i64::from(count.unwrap_or(0));
    let registered = driver.limit?;
    if in_cluster == registered || Some(in_cluster) == driver.limit_now {
        return None;
    }
    let shown = |limit: i64| (limit != 0).then(|| limit.to_string());
    Some(Difference {
        what: What::Limit,
        driver: shown(registered),
        cluster: shown(in_cluster),
    })
}

fn annotation(driver: &Registered, node: &Node) -> Option<Difference> {
    let annotations = node.metadata.annotations.as_ref();
    let text = annotations.and_then(|all| all.get(NODE_ID_ANNOTATION));
    // An annotation that is not a map of names and ids has the id of no driver.
    let ids: Option<BTreeMap<String, String>> =
        text.and_then(|text| serde_json::from_str(text).ok());
    let in_cluster = ids.and_then(|mut ids| ids.remove(&driver.name));
    (in_cluster.as_ref() != Some(&driver.node_id)).then(|| Difference {
        what: What::Annotation,
        driver: Some(driver.node_id.clone()),
        cluster: in_cluster,
    })
}

fn labels(driver: &Registered, node: &Node) -> Vec<Difference> {
    let labels = node.metadata.labels.as_ref();
    let differing = driver.topology.iter().filter_map(|(key, value)| {
        let label = labels.and_then(|labels| labels.get(key));
        (label != Some(value)).then(|| Difference {
            what: What::TopologyLabel,
            driver: Some(format!("{key}={value}")),
            cluster: label.map(|label| format!("{key}={label}")),
        })
    });
    differing.collect()
}

fn csi_driver(driver: &Registered, objects: &Objects) -> Option<Difference> {
    if let Some(None) = objects.csi_drivers.get(&driver.name) {
        return Some(Difference {
            what: What::CsiDriver,
            driver: Some(driver.name.clone()),
            cluster: None,
        });
    }
    let waits = waits_for_attachment(driver, &objects.csi_drivers);
    (waits && objects.without_attacher.contains(&driver.name)).then(|| Difference {
        what: What::CsiDriver,
        driver: Some("attachRequired: false".to_owned()),
        cluster: Some("attachRequired: true".to_owned()),
    })
}

/// The driver's CSIDriver object has attachRequired, which is the API server's default.
pub(crate) fn waits_for_attachment(
    driver: &Registered,
    csi_drivers: &BTreeMap<String, Option<CSIDriver>>,
) -> bool {
    let object = csi_drivers.get(&driver.name).and_then(Option::as_ref);
    object.is_some_and(|object| object.spec.attach_required.unwrap_or(true))
}

/// The garbage collector deletes a CSINode whose owner does not exist any more.
fn has_stale_owner(objects: &Objects) -> bool {
    let Some((csi_node, node)) = objects.csi_node.as_ref().zip(objects.node.as_ref()) else {
        return false;
    };
    let uid = node.metadata.uid.as_deref();
    let owners = csi_node.metadata.owner_references.iter().flatten();
    let nodes: Vec<&str> = owners
        .filter(|owner| owner.kind == "Node")
        .map(|owner| owner.uid.as_str())
        .collect();
    !nodes.is_empty() && !nodes.iter().any(|owner| Some(*owner) == uid)
}

#[cfg(test)]
mod tests;
