//! The inspection of a driver: all that it reports about itself, the time of each call, and the
//! rules that its answers break.

use std::collections::BTreeMap;

use serde::Serialize;

use super::error::DriverError;
use super::query::{DriverQuery, NODE_GET_INFO, Timed, identity_client, node_client};
use super::rules::{self, Breach};
use crate::disk::name::DriverName;
use crate::driver::answer::{AnswerError, check_node_id};
use crate::grpc::client::Channel;
use crate::grpc::proto::csi as proto;
use crate::grpc::proto::csi::node_service_capability::Type as NodeType;
use crate::grpc::proto::csi::plugin_capability::Type as PluginType;
use crate::os::text::printable;

const TOPOLOGY: &str = "VOLUME_ACCESSIBILITY_CONSTRAINTS";

/// The answers of a driver. A value that the driver did not report is none.
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

/// A call, how long it took, and why it failed.
#[derive(Debug, Serialize)]
pub(crate) struct InspectedCall {
    pub(crate) method: &'static str,
    pub(crate) milliseconds: f64,
    pub(crate) error: Option<String>,
}

impl DriverQuery {
    /// Makes all calls one after the other, so that each time belongs to a single call. Calls
    /// `slow` when NodeGetInfo takes longer than other calls may.
    pub(crate) async fn inspect(
        &self,
        slow: impl FnOnce(DriverError),
    ) -> Result<Inspection, DriverError> {
        self.look().await?;
        let (channel, ended) = self.connect().await?;
        self.while_open(ended, self.ask_everything(&channel, slow))
            .await
    }

    pub(super) async fn ask_everything(
        &self,
        channel: &Channel,
        slow: impl FnOnce(DriverError),
    ) -> Result<Inspection, DriverError> {
        let (mut identity, mut node) = (identity_client(channel), node_client(channel));
        let mut found = Inspection::default();
        let info = identity.get_plugin_info(proto::GetPluginInfoRequest {});
        let info = self.call("GetPluginInfo", info).await;
        // A driver that does not answer the first call would take as long for each other call.
        if let Err(late @ DriverError::TimedOut { .. }) = info.answer {
            return Err(late);
        }
        found.record(info, Breach::fatal, Inspection::add_info);
        self.ask_capabilities(channel, &mut found).await;
        let probe = self
            .call("Probe", identity.probe(proto::ProbeRequest {}))
            .await;
        found.record(probe, Breach::harmless, Inspection::add_probe);
        let info = {
            let call = self.call(
                NODE_GET_INFO,
                node.node_get_info(proto::NodeGetInfoRequest {}),
            );
            tokio::pin!(call);
            match self.soon(call.as_mut()).await {
                Ok(info) => info,
                Err(late) => {
                    slow(late);
                    call.await
                }
            }
        };
        found.record(info, Breach::fatal, Inspection::add_node);
        let reply = node.node_get_capabilities(proto::NodeGetCapabilitiesRequest {});
        let reply = self.call("NodeGetCapabilities", reply).await;
        found.record(reply, Breach::harmless, Inspection::add_node_capabilities);
        Ok(found)
    }

    /// Asks for the services of the driver.
    pub(super) async fn ask_capabilities(&self, channel: &Channel, found: &mut Inspection) {
        let mut identity = identity_client(channel);
        let reply = identity.get_plugin_capabilities(proto::GetPluginCapabilitiesRequest {});
        let reply = self.call("GetPluginCapabilities", reply).await;
        found.record(reply, Breach::harmless, Inspection::add_capabilities);
    }
}

impl Inspection {
    /// The driver can be registered.
    pub(crate) fn is_usable(&self) -> bool {
        !self.breaches.iter().any(|breach| breach.fatal)
    }

    /// The driver answered this call.
    pub(super) fn answered(&self, method: &str) -> bool {
        let is_answer = |call: &InspectedCall| call.method == method && call.error.is_none();
        self.calls.iter().any(is_answer)
    }

    /// Adds the answer, or the error as a breach of this severity.
    fn record<T>(
        &mut self,
        Timed { answer, call }: Timed<T>,
        severity: fn(String) -> Breach,
        add: fn(&mut Inspection, T),
    ) {
        let error = answer.as_ref().err().map(ToString::to_string);
        self.breaches.extend(error.clone().map(severity));
        self.calls.push(InspectedCall {
            method: call.method,
            milliseconds: (call.took.as_secs_f64() * 1e6).round() / 1e3,
            error,
        });
        if let Ok(answer) = answer {
            add(self, answer);
        }
    }

    fn warn(&mut self, what: impl Into<String>) {
        self.breaches.push(Breach::harmless(what.into()));
    }

    fn add_info(&mut self, info: proto::GetPluginInfoResponse) {
        let name = DriverName::parse(&info.name).map_err(AnswerError::Name);
        let broken = name.err().map(|error| Breach::fatal(error.to_string()));
        self.breaches.extend(broken);
        if info.vendor_version.is_empty() {
            self.warn("GetPluginInfo: vendor_version is empty, but CSI requires it");
        }
        self.name = Some(info.name);
        self.vendor_version = Some(info.vendor_version);
    }

    fn add_capabilities(&mut self, reply: proto::GetPluginCapabilitiesResponse) {
        let types = reply.capabilities.into_iter().filter_map(|all| all.r#type);
        let names = types.map(|capability| match capability {
            PluginType::Service(service) => service.r#type().as_str_name().to_owned(),
            PluginType::VolumeExpansion(expansion) => {
                format!("VOLUME_EXPANSION_{}", expansion.r#type().as_str_name())
            }
        });
        self.plugin_capabilities = names.collect();
    }

    fn add_probe(&mut self, probe: proto::ProbeResponse) {
        if probe.ready == Some(false) {
            self.warn("Probe: the driver reports that it is not ready yet");
        }
    }

    fn add_node(&mut self, node: proto::NodeGetInfoResponse) {
        if let Err(error) = check_node_id(&node.node_id) {
            self.breaches.push(Breach::fatal(error.to_string()));
        }
        let limit = node.max_volumes_per_node;
        if limit < 0 {
            self.warn(format!(
                "NodeGetInfo: max_volumes_per_node is {limit}; like the kubelet, the registrar takes a value below zero as no limit"
            ));
        }
        let segments = node.accessible_topology.unwrap_or_default().segments;
        self.breaches.extend(rules::topology(&segments));
        let promised = self.plugin_capabilities.iter().any(|name| name == TOPOLOGY);
        match (promised, segments.is_empty()) {
            (true, true) => self.warn(format!(
                "NodeGetInfo: no topology, although the driver has {TOPOLOGY}"
            )),
            (false, false) => self.warn(format!(
                "NodeGetInfo: a topology, although the driver does not have {TOPOLOGY}"
            )),
            (true, false) | (false, true) => {}
        }
        self.node_id = Some(node.node_id);
        self.max_volumes = Some(limit);
        self.topology = segments;
    }

    fn add_node_capabilities(&mut self, reply: proto::NodeGetCapabilitiesResponse) {
        let types = reply.capabilities.into_iter().filter_map(|all| all.r#type);
        let names = types.map(|NodeType::Rpc(rpc)| rpc.r#type().as_str_name().to_owned());
        self.node_capabilities = names.collect();
    }

    /// The topology as it can be printed: its text comes from the driver.
    pub(crate) fn printable_topology(&self) -> Vec<String> {
        let pair =
            |(key, value): (&String, &String)| format!("{} = {}", printable(key), printable(value));
        self.topology.iter().map(pair).collect()
    }
}
