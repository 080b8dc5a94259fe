//! The kubelet's side: the registration service on reg.sock.

mod agent;
mod service;
pub(crate) mod session;

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;

use self::session::{Endpoint, Session};
use crate::disk::identity::Identity;
use crate::grpc::MESSAGE_LIMIT;
use crate::grpc::authority::AuthorityStream;
use crate::grpc::proto::registration::registration_server::RegistrationServer;
use crate::grpc::server::{self, Activity, Limits, MakeService, Peer};
use crate::os::task::Task;

/// A kubelet keeps its connection for up to two minutes between its two calls.
const LIMITS: Limits = Limits {
    connections: 2048,
    first: Duration::from_secs(300),
    idle: Duration::from_secs(300),
};

/// A registration socket that is being served, until this is dropped.
pub(crate) struct Service {
    task: Task,
    retire: oneshot::Sender<()>,
    socket: Identity,
}

impl Service {
    /// Serves `endpoint` on `listener`, which is bound to `socket`.
    pub(crate) fn start(
        listener: UnixListener,
        socket: Identity,
        endpoint: Arc<Endpoint>,
    ) -> Service {
        let (retire, retired) = oneshot::channel();
        Service {
            task: Task::spawn(server::serve(
                listener,
                LIMITS,
                RegistrationSessions { endpoint },
                retired,
            )),
            retire,
            socket,
        }
    }

    /// The socket as it was when it was bound.
    pub(crate) fn socket(&self) -> &Identity {
        &self.socket
    }

    /// Takes no more connections. A call that is in progress is seen to its end by the task.
    pub(crate) fn retire(self) -> Task {
        drop(self.retire);
        self.task
    }
}

struct RegistrationSessions {
    endpoint: Arc<Endpoint>,
}

impl MakeService for RegistrationSessions {
    type Io = AuthorityStream<UnixStream>;
    type Service = RegistrationServer<Session>;

    fn receive(&self, stream: UnixStream, peer: Peer, busy: Activity) -> (Self::Io, Self::Service) {
        let visit = Session::new(self.endpoint.clone(), peer, busy);
        let service = RegistrationServer::new(visit).max_decoding_message_size(MESSAGE_LIMIT);
        (AuthorityStream::new(stream), service)
    }
}
