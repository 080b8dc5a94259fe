//! The simplest registrar: serves Registration on one socket and records Notify.

use std::os::unix::net::UnixListener as StdListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bed::proto::registration::registration_server::{Registration, RegistrationServer};
use bed::proto::registration::{
    InfoRequest, PluginInfo, RegistrationStatus, RegistrationStatusResponse,
};
use tokio::net::UnixListener;
use tokio::sync::oneshot;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Request, Response, Status};

pub(crate) struct StandIn {
    pub(crate) path: PathBuf,
    shared: Arc<Mutex<Shared>>,
    running: Option<(oneshot::Sender<()>, thread::JoinHandle<()>)>,
}

struct Shared {
    info: PluginInfo,
    told: Vec<RegistrationStatus>,
    notify: NotifyAnswer,
}

/// The answer to Notify.
#[derive(Clone, Copy)]
pub(crate) enum NotifyAnswer {
    Ok,
    Error,
    /// Longer than the kubelet waits.
    After(Duration),
}

impl StandIn {
    pub(crate) fn serve(path: &Path, name: &str, endpoint: &Path) -> Self {
        let info = PluginInfo {
            r#type: "CSIPlugin".to_owned(),
            name: name.to_owned(),
            endpoint: endpoint.to_str().unwrap().to_owned(),
            supported_versions: vec!["1.0.0".to_owned()],
        };
        let shared = Shared {
            info,
            told: Vec::new(),
            notify: NotifyAnswer::Ok,
        };
        let mut stand_in = Self {
            path: path.to_owned(),
            shared: Arc::new(Mutex::new(shared)),
            running: None,
        };
        stand_in.bind();
        stand_in
    }

    /// Binds the socket, again if it was bound before.
    pub(crate) fn bind(&mut self) {
        self.end();
        if self.path.exists() {
            std::fs::remove_file(&self.path).unwrap();
        }
        let listener = StdListener::bind(&self.path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let service = Service(Arc::clone(&self.shared));
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let incoming = UnixListenerStream::new(UnixListener::from_std(listener).unwrap());
                let server = tonic::transport::Server::builder()
                    .add_service(RegistrationServer::new(service))
                    .serve_with_incoming(incoming);
                tokio::select! {
                    served = server => served.unwrap(),
                    _ = stopped => {}
                }
            });
        });
        self.running = Some((stop, thread));
    }

    /// Stops, and leaves the socket file.
    pub(crate) fn end(&mut self) {
        if let Some((stop, thread)) = self.running.take() {
            drop(stop);
            thread.join().unwrap();
        }
    }

    pub(crate) fn change_info(&self, change: impl FnOnce(&mut PluginInfo)) {
        change(&mut self.shared.lock().unwrap().info);
    }

    pub(crate) fn answer_notify(&self, answer: NotifyAnswer) {
        self.shared.lock().unwrap().notify = answer;
    }

    pub(crate) fn told(&self) -> Vec<RegistrationStatus> {
        self.shared.lock().unwrap().told.clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.end();
    }
}

struct Service(Arc<Mutex<Shared>>);

#[tonic::async_trait]
impl Registration for Service {
    async fn get_info(&self, _: Request<InfoRequest>) -> Result<Response<PluginInfo>, Status> {
        Ok(Response::new(self.0.lock().unwrap().info.clone()))
    }

    async fn notify_registration_status(
        &self,
        status: Request<RegistrationStatus>,
    ) -> Result<Response<RegistrationStatusResponse>, Status> {
        let answer = {
            let mut shared = self.0.lock().unwrap();
            shared.told.push(status.into_inner());
            shared.notify
        };
        match answer {
            NotifyAnswer::Ok => {}
            NotifyAnswer::Error => return Err(Status::internal("told to fail")),
            NotifyAnswer::After(pause) => tokio::time::sleep(pause).await,
        }
        Ok(Response::new(RegistrationStatusResponse {}))
    }
}
