//! The CSI services of the fake driver.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::behaviour::{Answer, Behaviour, Call, Controller as Controlling, Probe};
use super::{Behaving, Shared};
use crate::proto::csi::controller_server::Controller;
use crate::proto::csi::controller_service_capability::rpc::Type as ControllerRpc;
use crate::proto::csi::controller_service_capability::{Rpc, Type as ControllerType};
use crate::proto::csi::identity_server::Identity;
use crate::proto::csi::node_server::Node;
use crate::proto::csi::plugin_capability::service::Type as ServiceType;
use crate::proto::csi::plugin_capability::{Service, Type};
use crate::proto::csi::{
    ControllerGetCapabilitiesRequest, ControllerGetCapabilitiesResponse,
    ControllerServiceCapability, GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse,
    GetPluginInfoRequest, GetPluginInfoResponse, NodeGetCapabilitiesRequest,
    NodeGetCapabilitiesResponse, NodeGetInfoRequest, NodeGetInfoResponse, PluginCapability,
    ProbeRequest, ProbeResponse, Topology,
};

#[derive(Clone)]
pub(super) struct Answers(pub(super) Arc<Shared>);

impl Answers {
    /// Counts the call, then waits as long as the behaviour says.
    async fn taken(&self, call: Call) -> Result<Behaviour, Status> {
        *self.0.calls.lock().unwrap().entry(call).or_default() += 1;
        let behaviour = self.0.behaviour.lock().unwrap().behaviour.clone();
        if behaviour.hangs.contains(&call) {
            std::future::pending::<()>().await;
        }
        let more = behaviour.delays.get(&call).copied().unwrap_or_default();
        tokio::time::sleep(behaviour.delay + more).await;
        let behaving = self.0.behaviour.lock().unwrap();
        behaving.check(call)?;
        Ok(behaving.behaviour.clone())
    }
}

impl Behaving {
    fn check(&self, call: Call) -> Result<(), Status> {
        let answer = match call {
            Call::GetPluginInfo => &self.behaviour.get_plugin_info,
            Call::NodeGetInfo => &self.behaviour.node_get_info,
            _ => return Ok(()),
        };
        match *answer {
            Answer::Works => Ok(()),
            Answer::FailsFor(time, _) if self.since.elapsed() >= time => Ok(()),
            Answer::Fails(code) | Answer::FailsFor(_, code) => {
                Err(Status::new(code, self.behaviour.complaint.clone()))
            }
        }
    }
}

#[tonic::async_trait]
impl Identity for Answers {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        let behaviour = self.taken(Call::GetPluginInfo).await?;
        Ok(Response::new(GetPluginInfoResponse {
            name: behaviour.name,
            vendor_version: behaviour.vendor_version,
            ..Default::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let behaviour = self.taken(Call::GetPluginCapabilities).await?;
        let has_controller = behaviour.controller != Controlling::Absent;
        let topology = ServiceType::VolumeAccessibilityConstraints;
        let services = [
            has_controller.then_some(ServiceType::ControllerService),
            (!behaviour.topology.is_empty()).then_some(topology),
        ];
        let capability = |service: ServiceType| PluginCapability {
            r#type: Some(Type::Service(Service {
                r#type: service.into(),
            })),
        };
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: services.into_iter().flatten().map(capability).collect(),
        }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        let ready = match self.taken(Call::Probe).await?.probe {
            Probe::Ready => Some(true),
            Probe::NotReady => Some(false),
            Probe::Absent => None,
            Probe::Fails(code) => return Err(Status::new(code, "the fake driver is unwell")),
        };
        Ok(Response::new(ProbeResponse { ready }))
    }
}

#[tonic::async_trait]
impl Controller for Answers {
    async fn controller_get_capabilities(
        &self,
        _: Request<ControllerGetCapabilitiesRequest>,
    ) -> Result<Response<ControllerGetCapabilitiesResponse>, Status> {
        let behaviour = self.taken(Call::ControllerGetCapabilities).await?;
        let rpc = match behaviour.controller {
            Controlling::Absent | Controlling::Elsewhere => {
                return Err(Status::unimplemented("unknown service csi.v1.Controller"));
            }
            Controlling::Fails(code) => return Err(Status::new(code, behaviour.complaint)),
            Controlling::Publishes => ControllerRpc::PublishUnpublishVolume,
            Controlling::Provisions => ControllerRpc::Unknown,
        };
        let rpc = Rpc { r#type: rpc.into() };
        Ok(Response::new(ControllerGetCapabilitiesResponse {
            capabilities: vec![ControllerServiceCapability {
                r#type: Some(ControllerType::Rpc(rpc)),
            }],
        }))
    }
}

#[tonic::async_trait]
impl Node for Answers {
    async fn node_get_info(
        &self,
        _: Request<NodeGetInfoRequest>,
    ) -> Result<Response<NodeGetInfoResponse>, Status> {
        let behaviour = self.taken(Call::NodeGetInfo).await?;
        let topology = (!behaviour.topology.is_empty()).then_some(Topology {
            segments: behaviour.topology,
        });
        Ok(Response::new(NodeGetInfoResponse {
            node_id: behaviour.node_id,
            max_volumes_per_node: behaviour.max_volumes,
            accessible_topology: topology,
        }))
    }

    async fn node_get_capabilities(
        &self,
        _: Request<NodeGetCapabilitiesRequest>,
    ) -> Result<Response<NodeGetCapabilitiesResponse>, Status> {
        self.taken(Call::NodeGetCapabilities).await?;
        Ok(Response::new(NodeGetCapabilitiesResponse::default()))
    }
}
