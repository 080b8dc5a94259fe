//! What `verify` found: the registered drivers, and what the cluster has of each. As JSON it is the output of
//! `verify --json`, which the doctor reads.

use serde::{Deserialize, Serialize};

use crate::os::text::printable;

/// The whole finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The name of this node in the cluster.
    pub(crate) node: String,
    /// The URL of the API server.
    pub(crate) server: String,
    pub(crate) agrees: bool,
    /// The Node object exists.
    pub(crate) node_found: bool,
    /// CSINode belongs to an earlier Node object of this name, and will be garbage-collected.
    pub(crate) stale_owner: bool,
    pub(crate) drivers: Vec<DriverReport>,
}

/// One registered driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DriverReport {
    /// The driver's own name.
    pub(crate) name: String,
    pub(crate) agrees: bool,
    /// This run announced the driver, and the cluster has it now.
    pub(crate) repaired: bool,
    pub(crate) differences: Vec<Difference>,
}

/// What the driver was registered with, and what the cluster has instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Difference {
    pub(crate) what: What,
    /// None where the driver has nothing of the kind.
    pub(crate) driver: Option<String>,
    /// None where the cluster has nothing of the kind.
    pub(crate) cluster: Option<String>,
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum What {
    /// CSINode does not list the driver.
    Missing,
    /// CSINode lists the driver with another node id.
    NodeId,
    /// CSINode lists the driver with other topology keys.
    TopologyKeys,
    /// The Node's annotation does not have the driver's node id.
    Annotation,
    /// The Node does not have the label that the driver's topology asks for.
    TopologyLabel,
    /// CSINode has another volume limit. A kubelet may update it by itself.
    Limit,
    /// The CSIDriver object is missing, or waits for an attacher that the driver does not have.
    #[serde(rename = "csidriver")]
    CsiDriver,
}

impl What {
    /// The cluster has the driver otherwise than it was registered. The other kinds are told, and are no fault
    /// of the registration.
    pub(crate) fn is_disagreement(self) -> bool {
        !matches!(self, What::Limit | What::CsiDriver)
    }
}

impl DriverReport {
    /// The cluster has lost the driver, or knows it by another node id: a new registration fixes that.
    pub(super) fn is_lost(&self) -> bool {
        let is_loss = |found: &Difference| matches!(found.what, What::Missing | What::NodeId);
        self.differences.iter().any(is_loss)
    }

    /// The differences for people: the kubelet writes the annotation with CSINode, so that a loss there explains it.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Difference> {
        let is_lost = self.is_lost();
        let differences = self.differences.iter();
        differences.filter(move |found| !is_lost || found.what != What::Annotation)
    }
}

impl Difference {
    /// A label of the Node has another value than the driver's topology. The kubelet refuses such a driver.
    pub(crate) fn is_collision(&self) -> bool {
        self.what == What::TopologyLabel && self.cluster.is_some()
    }

    /// What differs, as the end of a sentence about the driver.
    pub(crate) fn words(&self, node: &str) -> String {
        let quoted =
            |text: &Option<String>| format!("\"{}\"", printable(text.as_deref().unwrap_or("")));
        let or_none = |text: &Option<String>| printable(text.as_deref().unwrap_or("none"));
        let (driver, cluster) = (&self.driver, &self.cluster);
        match (self.what, cluster) {
            (What::Missing, _) => format!("CSINode {node} does not list it"),
            (What::NodeId, _) => format!(
                "CSINode {node} has the node id {} for it, and not {}",
                quoted(cluster),
                quoted(driver)
            ),
            (What::TopologyKeys, _) => format!(
                "CSINode {node} has the topology keys {} for it, and the driver has {}",
                or_none(cluster),
                or_none(driver)
            ),
            (What::Annotation, None) => {
                format!("the annotation of Node {node} does not have its node id")
            }
            (What::Annotation, Some(_)) => format!(
                "the annotation of Node {node} has the node id {} for it, and not {}",
                quoted(cluster),
                quoted(driver)
            ),
            (What::TopologyLabel, None) => {
                format!("Node {node} does not have the label {}", or_none(driver))
            }
            (What::TopologyLabel, Some(_)) => format!(
                "Node {node} has the label {}, and the driver reports {}",
                or_none(cluster),
                or_none(driver)
            ),
            (What::Limit, _) => format!(
                "CSINode {node} has the volume limit {}, and the driver was registered with {}",
                or_none(cluster),
                or_none(driver)
            ),
            (What::CsiDriver, None) => "the cluster has no CSIDriver object for it".to_owned(),
            (What::CsiDriver, Some(_)) => {
                "its CSIDriver object has attachRequired: true, and this process of the driver says that it attaches \
                 nothing: without an external-attacher for it, its pods wait indefinitely"
                    .to_owned()
            }
        }
    }

    /// What fixes the difference, as a command where a command does.
    pub(crate) fn fix(&self, node: &str, name: &str) -> String {
        let reannounce = format!("node-storage-driver-registrar reannounce {name}");
        match self.what {
            What::Missing | What::NodeId => {
                "node-storage-driver-registrar verify --repair".to_owned()
            }
            What::TopologyKeys | What::Annotation => reannounce,
            What::TopologyLabel if self.is_collision() => {
                let key = self
                    .driver
                    .as_deref()
                    .and_then(|label| label.split_once('='));
                let key = printable(key.map_or("", |(key, _)| key));
                format!("kubectl label node {node} {key}- ; then {reannounce}")
            }
            What::TopologyLabel => reannounce,
            What::Limit => format!(
                "nothing, if the kubelet is of release 1.36 or later and CSIDriver sets nodeAllocatableUpdatePeriodSeconds; else {reannounce}"
            ),
            What::CsiDriver if self.cluster.is_none() => format!(
                "create it once for the cluster: node-storage-driver-registrar inspect {name} --csidriver > csidriver.yaml, read it, then kubectl apply -f csidriver.yaml with the kubeconfig of an administrator"
            ),
            What::CsiDriver => format!(
                "delete the CSIDriver object and create it again with attachRequired: false, as node-storage-driver-registrar inspect {name} --csidriver prints it"
            ),
        }
    }
}
