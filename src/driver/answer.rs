//! The checked answer of a driver: its name, and what the kubelet takes from NodeGetInfo.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::disk::name::{DriverName, NameError};
use crate::grpc::proto::csi::{GetPluginInfoResponse, NodeGetInfoResponse};
use crate::os::text::printable;

pub(crate) const LONGEST_NODE_ID: usize = 256;

/// The answers to GetPluginInfo and NodeGetInfo, with all that the kubelet takes from them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// From GetPluginInfo.
    pub name: DriverName,
    /// From GetPluginInfo; shown, never acted on.
    pub vendor_version: String,
    /// From NodeGetInfo.
    pub node_id: String,
    /// From NodeGetInfo; zero lets the cluster decide.
    pub max_volumes: i64,
    /// From NodeGetInfo: the topology segments of the node.
    pub topology: BTreeMap<String, String>,
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum AnswerError {
    #[error("GetPluginInfo: {0}")]
    Name(#[from] NameError),
    #[error(
        "GetPluginInfo: the driver calls itself \"{said}\", but the configuration pins \"{pinned}\""
    )]
    OtherName {
        said: DriverName,
        pinned: DriverName,
    },
    #[error("NodeGetInfo: the node id is empty")]
    NoNodeId,
    #[error("NodeGetInfo: the node id has {0} bytes, more than {LONGEST_NODE_ID}")]
    LongNodeId(usize),
}

/// The difference between the answer that the cluster knows and the answer now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerChange {
    /// Nothing that the cluster would see.
    None,
    /// Only the volume limit. A driver may change it all day while it runs, and a kubelet from 1.36
    /// on updates the limit by itself.
    Limit(String),
    /// A change that the kubelet must register again; in words.
    Announce(String),
    /// A topology key has another value. The kubelet refuses it while the node has the old label,
    /// and the driver would be lost. In words, with both values.
    Collision(String),
}

/// The name that the driver reports, if it is valid and allowed.
pub(crate) fn name(
    info: &GetPluginInfoResponse,
    pinned: Option<&DriverName>,
) -> Result<DriverName, AnswerError> {
    let said = DriverName::parse(&info.name)?;
    match pinned.filter(|pinned| **pinned != said) {
        None => Ok(said),
        Some(pinned) => Err(AnswerError::OtherName {
            said,
            pinned: pinned.clone(),
        }),
    }
}

pub(crate) fn check_node_id(node_id: &str) -> Result<(), AnswerError> {
    match node_id.len() {
        0 => Err(AnswerError::NoNodeId),
        1..=LONGEST_NODE_ID => Ok(()),
        length => Err(AnswerError::LongNodeId(length)),
    }
}

impl Answer {
    /// Combines the two replies.
    pub(crate) fn check(
        info: GetPluginInfoResponse,
        node: NodeGetInfoResponse,
        pinned: Option<&DriverName>,
    ) -> Result<Answer, AnswerError> {
        let name = name(&info, pinned)?;
        check_node_id(&node.node_id)?;
        Ok(Answer {
            name,
            vendor_version: printable(&info.vendor_version),
            node_id: node.node_id,
            // The kubelet takes a limit below zero as no limit.
            max_volumes: node.max_volumes_per_node.max(0),
            topology: node.accessible_topology.unwrap_or_default().segments,
        })
    }

    /// What the cluster would see if the driver, known as `self`, were registered as `now`.
    pub(crate) fn change_to(&self, now: &Answer) -> AnswerChange {
        let moved = self.topology.iter().find_map(|(key, old)| {
            let new = now.topology.get(key).filter(|new| *new != old)?;
            Some((key, old, new))
        });
        if let Some((key, old, new)) = moved {
            return AnswerChange::Collision(format!(
                "the driver now reports topology {} = \"{}\", but the node carries \"{}\"",
                printable(key),
                printable(new),
                printable(old)
            ));
        }
        if self.node_id != now.node_id {
            return AnswerChange::Announce(format!(
                "node id changed from \"{}\" to \"{}\"",
                printable(&self.node_id),
                printable(&now.node_id)
            ));
        }
        if !self.topology.keys().eq(now.topology.keys()) {
            return AnswerChange::Announce("topology keys changed".to_owned());
        }
        if self.max_volumes != now.max_volumes {
            return AnswerChange::Limit(format!(
                "volume limit changed from {} to {}",
                self.max_volumes, now.max_volumes
            ));
        }
        AnswerChange::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::proto::csi::Topology;

    fn node(id: &str, topology: &[(&str, &str)]) -> NodeGetInfoResponse {
        let segments = topology
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect();
        NodeGetInfoResponse {
            node_id: id.to_owned(),
            max_volumes_per_node: 8,
            accessible_topology: Some(Topology { segments }),
        }
    }

    fn answer(id: &str, topology: &[(&str, &str)]) -> Answer {
        let info = GetPluginInfoResponse {
            name: "a.b".to_owned(),
            ..Default::default()
        };
        Answer::check(info, node(id, topology), None).unwrap()
    }

    #[test]
    fn refuses_answers_that_a_kubelet_would_give_up_on() {
        let check = |name: &str, node_id: &str, pinned: Option<&str>| {
            let info = GetPluginInfoResponse {
                name: name.to_owned(),
                ..Default::default()
            };
            let pinned = pinned.map(|name| DriverName::parse(name).unwrap());
            Answer::check(info, node(node_id, &[]), pinned.as_ref())
        };
        assert!(matches!(
            check("../x", "n", None),
            Err(AnswerError::Name(_))
        ));
        assert!(matches!(
            check("a", "n", Some("b")),
            Err(AnswerError::OtherName { .. })
        ));
        assert_eq!(check("a", "", None), Err(AnswerError::NoNodeId));
        assert_eq!(
            check("a", &"n".repeat(257), None),
            Err(AnswerError::LongNodeId(257))
        );
        assert!(check("a", &"n".repeat(256), Some("a")).is_ok());
    }

    #[test]
    fn a_limit_below_zero_is_none() {
        let info = GetPluginInfoResponse {
            name: "a.b".to_owned(),
            ..Default::default()
        };
        let below = NodeGetInfoResponse {
            max_volumes_per_node: -1,
            ..node("n1", &[])
        };
        assert_eq!(Answer::check(info, below, None).unwrap().max_volumes, 0);
    }

    #[test]
    fn tells_what_the_cluster_would_see() {
        let known = answer("n1", &[("zone", "a")]);
        assert_eq!(
            known.change_to(&answer("n1", &[("zone", "a")])),
            AnswerChange::None
        );
        assert!(matches!(
            known.change_to(&answer("n2", &[("zone", "a")])),
            AnswerChange::Announce(_)
        ));
        assert!(matches!(
            known.change_to(&answer("n1", &[("zone", "a"), ("rack", "1")])),
            AnswerChange::Announce(_)
        ));
        assert!(matches!(
            known.change_to(&answer("n1", &[])),
            AnswerChange::Announce(_)
        ));
        let limited = Answer {
            max_volumes: 5,
            ..known.clone()
        };
        let AnswerChange::Limit(words) = known.change_to(&limited) else {
            panic!("not seen as another limit")
        };
        assert_eq!(words, "volume limit changed from 8 to 5");
    }

    #[test]
    fn another_topology_value_outweighs_every_other_change() {
        let known = answer("n1", &[("zone", "a")]);
        let AnswerChange::Collision(words) = known.change_to(&answer("n2", &[("zone", "b")]))
        else {
            panic!("not seen as a collision")
        };
        assert!(
            words.contains("\"a\"") && words.contains("\"b\"") && words.contains("zone"),
            "{words}"
        );
    }
}
