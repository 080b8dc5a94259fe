//! The API objects of one node, which outlive every kubelet.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::proto::csi::NodeGetInfoResponse;

/// The API server's objects of the node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// CSINode's drivers by name.
    pub csi_node: BTreeMap<String, CsiNodeEntry>,
    /// The annotation `csi.volume.kubernetes.io/nodeid` of Node: driver name to node id.
    pub node_ids: BTreeMap<String, String>,
    /// Labels of Node. A de-registration removes none.
    pub labels: BTreeMap<String, String>,
}

/// One driver in CSINode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CsiNodeEntry {
    /// The driver's id of the node.
    pub node_id: String,
    /// Only the keys; the values are labels of Node.
    pub topology_keys: BTreeSet<String>,
    /// `allocatable.count`
    pub max_volumes: i64,
}

impl Cluster {
    /// The Node half of installing a driver: `Ok(true)` when the patch changes something.
    pub(super) fn install_on_node(
        &mut self,
        driver: &str,
        info: &NodeGetInfoResponse,
    ) -> Result<bool, String> {
        let mut patched = self.clone();
        patched
            .node_ids
            .insert(driver.to_owned(), info.node_id.clone());
        for (key, value) in segments(info) {
            match self.labels.get(key) {
                Some(label) if label != value => {
                    return Err(format!(
                        "detected topology value collision: driver reported {key:?}:{value:?} but existing label is {key:?}:{label:?}"
                    ));
                }
                _ => patched.labels.insert(key.clone(), value.clone()),
            };
        }
        Ok(self.replace_with(patched))
    }

    /// The CSINode half: true when it changes something. For a kubelet that restarted and a driver that
    /// did not change, it does not.
    pub(super) fn install_in_csi_node(&mut self, driver: &str, info: &NodeGetInfoResponse) -> bool {
        let entry = CsiNodeEntry {
            node_id: info.node_id.clone(),
            topology_keys: segments(info).map(|(key, _)| key.clone()).collect(),
            max_volumes: info.max_volumes_per_node,
        };
        let mut written = self.clone();
        written.csi_node.insert(driver.to_owned(), entry);
        self.replace_with(written)
    }

    pub(super) fn uninstall_from_csi_node(&mut self, driver: &str) -> bool {
        self.csi_node.remove(driver).is_some()
    }

    pub(super) fn uninstall_from_node(&mut self, driver: &str) -> bool {
        self.node_ids.remove(driver).is_some()
    }

    fn replace_with(&mut self, other: Self) -> bool {
        let changed = *self != other;
        *self = other;
        changed
    }
}

fn segments(info: &NodeGetInfoResponse) -> impl Iterator<Item = (&String, &String)> {
    info.accessible_topology
        .iter()
        .flat_map(|topology| &topology.segments)
}
