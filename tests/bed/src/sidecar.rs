//! The simplest node-driver-registrar: a plain socket that serves Registration.

use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};

use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

use crate::proto::registration::registration_server::{Registration, RegistrationServer};
use crate::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use crate::worker::Worker;

/// A running stand-in for node-driver-registrar; dropping it ends it as [`Self::kill`] does.
pub struct Sidecar {
    socket: PathBuf,
    _worker: Worker,
}

impl Sidecar {
    /// Serves the driver on `socket`. It first removes any file at that path, as node-driver-registrar
    /// does.
    pub fn start(socket: impl Into<PathBuf>, name: &str, endpoint: &Path) -> Self {
        let socket = socket.into();
        match std::fs::remove_file(&socket) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => panic!("{error}"),
            Ok(()) | Err(_) => {}
        }
        let listener = StdListener::bind(&socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let service = Service(PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: name.to_owned(),
            endpoint: endpoint.to_str().unwrap().to_owned(),
            supported_versions: vec!["1.0.0".to_owned()],
        });
        let _worker = Worker::spawn("sidecar", move || async move {
            let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
            tonic::transport::Server::builder()
                .add_service(RegistrationServer::new(service))
                .serve_with_incoming(incoming)
                .await
                .unwrap();
        });
        Self { socket, _worker }
    }

    /// A graceful end: it first removes the file at its path, even if that is not its own socket.
    pub fn stop(self) {
        std::fs::remove_file(&self.socket).unwrap();
    }

    /// As by `kill -9`: the stale socket stays.
    pub fn kill(self) {}
}

struct Service(PluginInfo);

#[tonic::async_trait]
impl Registration for Service {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.0.clone()))
    }

    async fn notify_registration_status(
        &self,
        _: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
