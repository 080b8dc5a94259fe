//! The registration service: the two calls of a kubelet.

use std::time::Duration;

use tokio::time::timeout;
use tonic::{Request, Response, Status, async_trait};

use super::session::{Outcome, Session};
use crate::grpc::proto::registration::registration_server::Registration;
use crate::grpc::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use crate::os::text::printable;

/// The kubelet waits five seconds for its answer, and from 1.36 on removes the driver if the answer
/// is late. So the answer goes out after this time even if the state file is not written yet.
const WRITTEN: Duration = Duration::from_secs(1);

#[async_trait]
impl Registration for Session {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        match self.ask() {
            Some(info) => Ok(Response::new(info)),
            None => Err(Status::unavailable("the driver does not answer")),
        }
    }

    async fn notify_registration_status(
        &self,
        request: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let outcome = if status.plugin_registered {
            Outcome::Registered
        } else {
            Outcome::Rejected(printable(&status.error))
        };
        if timeout(WRITTEN, self.tell(outcome)).await.is_err() {
            tracing::warn!("the kubelet got its answer before the state file was written");
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
