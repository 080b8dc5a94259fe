//! The registration endpoint: the service on reg.sock that kubelets call.

mod service;
pub(crate) mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::oneshot;

use self::session::{Endpoint, Session};
use crate::disk::identity::Identity;
use crate::disk::nesting::resolved;
use crate::grpc::MESSAGE_LIMIT;
use crate::grpc::authority::adapted;
use crate::grpc::proto::registration::registration_server::RegistrationServer;
use crate::grpc::server::{self, Activity, Limits};
use crate::os::task::Task;

/// A kubelet keeps its connection for up to two minutes between its two calls.
const LIMITS: Limits = Limits {
    connections: 2048,
    first: Duration::from_secs(300),
    idle: Duration::from_secs(300),
};

/// A served registration socket. The server ends when this is dropped.
pub(crate) struct Service {
    task: Task,
    retire: oneshot::Sender<()>,
    socket: Identity,
    path: PathBuf,
}

impl Service {
    /// Serves `endpoint` on `listener`, which is bound to `socket` at `path`.
    pub(crate) fn start(
        listener: UnixListener,
        socket: Identity,
        path: &Path,
        endpoint: Arc<Endpoint>,
    ) -> Service {
        let (retire, retired) = oneshot::channel();
        let connected = move |stream, peer, activity: Activity| {
            let session = Session::new(endpoint.clone(), peer, activity.clone());
            let service = RegistrationServer::new(session).max_decoding_message_size(MESSAGE_LIMIT);
            server::serve_connection(adapted(stream), service, activity, LIMITS)
        };
        Service {
            task: Task::spawn(server::serve(listener, LIMITS, connected, retired)),
            retire,
            socket,
            path: resolved(path),
        }
    }

    /// The identity of the socket when it was bound.
    pub(crate) fn socket(&self) -> &Identity {
        &self.socket
    }

    /// Where the socket was bound, without links: a link on the way may lead elsewhere by now.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts no more connections. The task finishes a call that is in progress.
    pub(crate) fn retire(self) -> Task {
        drop(self.retire);
        self.task
    }
}
