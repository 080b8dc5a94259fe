//! A driver asked for all that it says of itself, with the time of each call and the rules it breaks.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use tonic::Code;

use super::error::DriverError;
use super::query::{DriverQuery, NODE_GET_INFO, Timed, identity_client, node_client};
use super::rules::{self, Breach};
use crate::disk::name::DriverName;
use crate::driver::answer::{AnswerError, LONGEST_NODE_ID};
use crate::grpc::client::Channel;
use crate::grpc::proto::csi::node_service_capability::Type as NodeType;
use crate::grpc::proto::csi::plugin_capability::Type as PluginType;
use crate::grpc::proto::csi::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, NodeGetCapabilitiesRequest, NodeGetCapabilitiesResponse,
    NodeGetInfoRequest, NodeGetInfoResponse, ProbeRequest, ProbeResponse,
};
use crate::os::text::printable;

const TOPOLOGY: &str = "VOLUME_ACCESSIBILITY_CONSTRAINTS";

/// All that was learned. What the driver did not tell is none.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Inspection {
    pub(crate) name: Option<String>,
    pub(crate) vendor_version: Option<String>,
    pub(crate) plugin_capabilities: Vec<String>,
    pub(crate) node_capabilities: Vec<String>,
    pub(crate) node_id: Option<String>,
    pub(crate) topology: BTreeMap<String, String>,
    /// Zero lets the cluster decide.
    pub(crate) max_volumes: Option<i64>,
    pub(crate) calls: Vec<InspectedCall>,
    pub(crate) breaches: Vec<Breach>,
}

/// One call, and how it went.
#[derive(Debug, Serialize)]
pub(crate) struct InspectedCall {
    pub(crate) method: &'static str,
    pub(crate) milliseconds: f64,
    pub(crate) error: Option<String>,
}

impl Inspection {
    /// The driver can be registered.
    pub(crate) fn is_usable(&self) -> bool {
        !self.breaches.iter().any(|breach| breach.fatal)
    }

    fn note<T>(&mut self, asked: Timed<T>) -> Result<T, DriverError> {
        let Timed { answer, operation } = asked;
        self.calls.push(InspectedCall {
            method: operation.method,
            milliseconds: milliseconds(operation.took),
            error: answer.as_ref().err().map(ToString::to_string),
        });
        answer
    }

    fn heard_info(&mut self, answer: Result<GetPluginInfoResponse, DriverError>) {
        match answer {
            Ok(info) => {
                if let Err(error) = DriverName::parse(&info.name) {
                    let what = AnswerError::Name(error).to_string();
                    self.breaches.push(Breach::fatal(what));
                }
                if info.vendor_version.is_empty() {
                    let what = "GetPluginInfo: vendor_version is empty, and CSI requires one";
                    self.breaches.push(Breach::harmless(what));
                }
                self.name = Some(info.name);
                self.vendor_version = Some(info.vendor_version);
            }
            Err(trouble) => self.breaches.push(Breach::fatal(trouble.to_string())),
        }
    }

    fn heard_capabilities(&mut self, answer: Result<GetPluginCapabilitiesResponse, DriverError>) {
        match answer {
            Ok(reply) => {
                let all = reply.capabilities.into_iter().filter_map(|one| one.r#type);
                self.plugin_capabilities = all
                    .map(|one| match one {
                        PluginType::Service(service) => service.r#type().as_str_name().to_owned(),
                        PluginType::VolumeExpansion(expansion) => {
                            format!("VOLUME_EXPANSION_{}", expansion.r#type().as_str_name())
                        }
                    })
                    .collect();
            }
            Err(trouble) => self.breaches.push(Breach::harmless(trouble.to_string())),
        }
    }

    fn heard_probe(&mut self, answer: Result<ProbeResponse, DriverError>) {
        let what = match answer {
            Ok(ProbeResponse { ready: Some(false) }) => {
                "Probe: the driver says that it is not ready yet".to_owned()
            }
            Ok(_) => return,
            Err(trouble) => trouble.to_string(),
        };
        self.breaches.push(Breach::harmless(what));
    }

    fn heard_node(&mut self, answer: Result<NodeGetInfoResponse, DriverError>) {
        let node = match answer {
            Ok(node) => node,
            Err(DriverError::Call {
                code: Code::Unimplemented,
                ..
            }) => {
                let what = DriverError::NoNodeService.to_string();
                self.breaches.push(Breach::fatal(what));
                return;
            }
            Err(trouble) => {
                self.breaches.push(Breach::fatal(trouble.to_string()));
                return;
            }
        };
        let limits = [
            node.node_id.is_empty().then_some(AnswerError::NoNodeId),
            (node.node_id.len() > LONGEST_NODE_ID)
                .then_some(AnswerError::LongNodeId(node.node_id.len())),
        ];
        let broken = limits.into_iter().flatten();
        self.breaches
            .extend(broken.map(|error| Breach::fatal(error.to_string())));
        if node.max_volumes_per_node < 0 {
            self.breaches.push(Breach::harmless(format!(
                "NodeGetInfo: max_volumes_per_node is {}; below zero means no limit, as for the kubelet",
                node.max_volumes_per_node
            )));
        }
        let segments = node.accessible_topology.unwrap_or_default().segments;
        self.breaches.extend(rules::topology(&segments));
        let promised = self.plugin_capabilities.iter().any(|one| one == TOPOLOGY);
        if promised && segments.is_empty() {
            self.breaches.push(Breach::harmless(format!(
                "NodeGetInfo: no topology, although the driver has {TOPOLOGY}"
            )));
        }
        if !promised && !segments.is_empty() {
            self.breaches.push(Breach::harmless(format!(
                "NodeGetInfo: a topology, although the driver has no {TOPOLOGY}"
            )));
        }
        self.node_id = Some(node.node_id);
        self.max_volumes = Some(node.max_volumes_per_node);
        self.topology = segments;
    }

    fn heard_node_capabilities(
        &mut self,
        answer: Result<NodeGetCapabilitiesResponse, DriverError>,
    ) {
        match answer {
            Ok(reply) => {
                let all = reply.capabilities.into_iter().filter_map(|one| one.r#type);
                self.node_capabilities = all
                    .map(|NodeType::Rpc(rpc)| rpc.r#type().as_str_name().to_owned())
                    .collect();
            }
            Err(trouble) => self.breaches.push(Breach::harmless(trouble.to_string())),
        }
    }

    /// For those who print it: what came from the driver is somebody else's words.
    pub(crate) fn printable_topology(&self) -> Vec<String> {
        let pair =
            |(key, value): (&String, &String)| format!("{} = {}", printable(key), printable(value));
        self.topology.iter().map(pair).collect()
    }
}

impl DriverQuery {
    /// Asks everything, one call after the other, so that each time is that of one call. `slow` is
    /// told when NodeGetInfo takes longer than other calls may.
    pub(crate) async fn inspect(
        &self,
        slow: impl FnOnce(DriverError),
    ) -> Result<Inspection, DriverError> {
        self.look().await?;
        let (channel, mut ended) = self.connect().await?;
        self.until(&mut ended, self.ask_everything(&channel, slow))
            .await?
    }

    async fn ask_everything(
        &self,
        channel: &Channel,
        slow: impl FnOnce(DriverError),
    ) -> Result<Inspection, DriverError> {
        let (mut identity, mut node) = (identity_client(channel), node_client(channel));
        let mut seen = Inspection::default();
        let info = identity.get_plugin_info(GetPluginInfoRequest {});
        let info = seen.note(self.call("GetPluginInfo", info).await);
        // A driver that does not answer the first question would take as long for each other one.
        if let Err(late @ DriverError::TimedOut { .. }) = info {
            return Err(late);
        }
        seen.heard_info(info);
        let capabilities = identity.get_plugin_capabilities(GetPluginCapabilitiesRequest {});
        let capabilities = seen.note(self.call("GetPluginCapabilities", capabilities).await);
        seen.heard_capabilities(capabilities);
        let probe = seen.note(self.call("Probe", identity.probe(ProbeRequest {})).await);
        seen.heard_probe(probe);
        let info = {
            let call = self.call(NODE_GET_INFO, node.node_get_info(NodeGetInfoRequest {}));
            tokio::pin!(call);
            match self.soon(call.as_mut()).await {
                Ok(info) => info,
                Err(late) => {
                    slow(late);
                    call.await
                }
            }
        };
        let info = seen.note(info);
        seen.heard_node(info);
        let capabilities = node.node_get_capabilities(NodeGetCapabilitiesRequest {});
        let capabilities = seen.note(self.call("NodeGetCapabilities", capabilities).await);
        seen.heard_node_capabilities(capabilities);
        Ok(seen)
    }
}

fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e6).round() / 1e3
}
