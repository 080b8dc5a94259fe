//! A query to a driver: connects to csi.sock and asks for name and node, each step with a deadline.

use std::future::Future;
use std::io::ErrorKind;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tonic::{Code, Response, Status};

use super::csi_socket;
use super::error::DriverError;
use crate::config::DriverSettings;
use crate::disk::directory::is_missing;
use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::socket;
use crate::driver::answer::{self, Answer};
use crate::grpc::MESSAGE_LIMIT;
use crate::grpc::client::{self, Channel, ConnectError, Ended};
use crate::grpc::idle_connection::IdleConnection;
use crate::grpc::proto::csi::controller_client::ControllerClient;
use crate::grpc::proto::csi::identity_client::IdentityClient;
use crate::grpc::proto::csi::node_client::NodeClient;
use crate::grpc::proto::csi::{
    GetPluginInfoRequest, GetPluginInfoResponse, NodeGetInfoRequest, ProbeRequest, ProbeResponse,
};
use crate::os::text::printable;

/// The only call with a deadline of its own.
pub(crate) const NODE_GET_INFO: &str = "NodeGetInfo";

/// The questions, the socket, and the deadlines.
pub(crate) struct DriverQuery {
    settings: DriverSettings,
    /// The configuration does not name the socket.
    discovered: bool,
    reach: Reach,
    /// Of the calls for name and node.
    pub(crate) observer: CallObserver,
    /// The warning about a volume limit below zero was logged.
    limit_logged: AtomicBool,
}

/// Receives each call that has ended, with the name that the driver reported, if it is a valid
/// name.
pub(crate) type CallObserver = Box<dyn Fn(Option<&str>, CsiCall) + Send + Sync>;

/// A CSI call that has ended, successfully or not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CsiCall {
    /// Without its service, such as `NodeGetInfo`.
    pub(crate) method: &'static str,
    pub(crate) took: Duration,
    pub(crate) code: Code,
}

/// The answer to a call, and how long it took.
pub(super) struct Timed<T> {
    pub(super) answer: Result<T, DriverError>,
    pub(super) call: CsiCall,
}

impl DriverQuery {
    /// A socket that discovery found must be in directories that only root can change.
    pub(crate) fn new(settings: &DriverSettings, discovered: bool, reach: &Reach) -> DriverQuery {
        DriverQuery {
            settings: settings.clone(),
            discovered,
            reach: reach.clone(),
            observer: Box::new(|_, _| ()),
            limit_logged: AtomicBool::new(false),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.settings.csi_socket
    }

    /// The socket that exists on disk now.
    pub(crate) async fn look(&self) -> Result<Identity, DriverError> {
        let (path, discovered) = (self.path().to_owned(), self.discovered);
        self.access(move || csi_socket::look(&path, discovered))
            .await?
    }

    /// Does work that may block on a file system.
    async fn access<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DriverError> {
        let deadline = self.settings.request_timeout;
        let done = self.reach.look(self.path(), deadline, work).await;
        done.map_err(|hung| DriverError::OutOfReach(self.path().to_owned(), hung))
    }

    /// Asks the driver, and holds a connection whose end shows that the driver may have gone. The
    /// held connection opens first, if only by microseconds: it ends with the process that listens
    /// now, so that the answer of a later process does not count as the answer of this process.
    ///
    /// Calls `slow` when NodeGetInfo takes longer than other calls may.
    pub(crate) async fn hold_and_ask(
        &self,
        slow: impl FnOnce(DriverError),
    ) -> Result<(IdleConnection, Result<Answer, DriverError>), DriverError> {
        let (held, connection) = tokio::join!(self.hold(), self.connect());
        let held = held?;
        let (channel, ended) = connection?;
        let answer = self.while_open(ended, self.ask_over(&channel, slow)).await;
        Ok((held, answer))
    }

    /// Opens a connection that asks nothing.
    pub(crate) async fn hold(&self) -> Result<IdleConnection, DriverError> {
        let stream = self.open().await?;
        let started = self.in_time("connecting", IdleConnection::over(stream));
        started.await?.map_err(|error| self.refused(error))
    }

    /// Asks the driver over a new connection. A driver that has answered before may take its time.
    pub(crate) async fn ask(&self) -> Result<Answer, DriverError> {
        let (channel, ended) = self.connect().await?;
        self.while_open(ended, self.ask_over(&channel, drop)).await
    }

    pub(super) async fn connect(&self) -> Result<(Channel, Ended), DriverError> {
        let stream = self.open().await?;
        let started = self.in_time("connecting", client::over(stream));
        started.await?.map_err(|error| self.refused(error))
    }

    async fn open(&self) -> Result<UnixStream, DriverError> {
        let path = self.path().to_owned();
        let opened = self.access(move || socket::open(&path)).await?;
        let opened = opened.and_then(UnixStream::from_std);
        opened.map_err(|error| self.refused(error))
    }

    fn refused(&self, source: impl Into<ConnectError>) -> DriverError {
        let (socket, source) = (self.path().to_owned(), source.into());
        match &source {
            ConnectError::Connect(error) if is_missing(error) => DriverError::Absent(socket),
            ConnectError::Connect(error) => match error.kind() {
                ErrorKind::ConnectionRefused => DriverError::Refused(socket),
                ErrorKind::PermissionDenied => DriverError::Forbidden(socket, source),
                _ => DriverError::Connect(socket, source),
            },
            ConnectError::Handshake(_) => DriverError::Connect(socket, source),
        }
    }

    /// Does the work until the connection ends.
    pub(super) async fn while_open<T>(
        &self,
        ended: Ended,
        work: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        tokio::select! {
            done = work => done,
            end = ended => {
                let socket = self.path().to_owned();
                Err(match end {
                    Ok(()) => DriverError::Closed(socket),
                    Err(broken) => DriverError::Broken(socket, broken),
                })
            }
        }
    }

    /// Sends all calls at once, because no call needs the answer of another. NodeGetInfo may take
    /// longer than the others, but not when the other answers already show that the driver cannot
    /// be registered.
    async fn ask_over(
        &self,
        channel: &Channel,
        slow: impl FnOnce(DriverError),
    ) -> Result<Answer, DriverError> {
        let mut identity = identity_client(channel);
        let mut probing = identity.clone();
        let mut client = node_client(channel);
        let node = self.call(NODE_GET_INFO, client.node_get_info(NodeGetInfoRequest {}));
        tokio::pin!(node);
        let info = identity.get_plugin_info(GetPluginInfoRequest {});
        let probe = async {
            if !self.settings.require_probe {
                return None;
            }
            Some(self.call("Probe", probing.probe(ProbeRequest {})).await)
        };
        let (info, ready, early) = tokio::join!(
            self.call("GetPluginInfo", info),
            probe,
            self.soon(node.as_mut()),
        );
        let reported = info.answer.as_ref().ok();
        let name = reported.and_then(|info| DriverName::parse(&info.name).ok());
        let observe = |call| (self.observer)(name.as_ref().map(DriverName::as_str), call);
        observe(info.call);
        if let Some(ready) = &ready {
            observe(ready.call);
        }
        let identified = self.identified(info.answer, ready.map(|ready| ready.answer));
        let (identified, node) = match (identified, early) {
            (identified, Ok(node)) => (identified, node),
            (Err(error), Err(_)) => return Err(error),
            (Ok(info), Err(late)) => {
                slow(late);
                (Ok(info), node.await)
            }
        };
        observe(node.call);
        match (identified, node.answer) {
            // A controller stays a controller, whatever its name is and whether it is ready.
            (
                Err(DriverError::Answer(_) | DriverError::NotReady),
                Err(no_node @ DriverError::NoNodeService),
            ) => Err(no_node),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(info), Ok(node)) => {
                let limit = node.max_volumes_per_node;
                if limit < 0 && !self.limit_logged.swap(true, Ordering::Relaxed) {
                    let csi_socket = self.path().display();
                    let name = printable(&info.name);
                    tracing::warn!(%csi_socket, "{name}: max_volumes_per_node is {limit}; like the kubelet, the registrar takes a value below zero as no limit");
                }
                Ok(Answer::check(info, node, self.settings.name.as_ref())?)
            }
        }
    }

    /// Checks that the name can be used and that the driver is ready.
    fn identified(
        &self,
        info: Result<GetPluginInfoResponse, DriverError>,
        ready: Option<Result<ProbeResponse, DriverError>>,
    ) -> Result<GetPluginInfoResponse, DriverError> {
        let info = info?;
        answer::name(&info, self.settings.name.as_ref())?;
        match ready.transpose()? {
            Some(ProbeResponse { ready: Some(false) }) => Err(DriverError::NotReady),
            Some(_) | None => Ok(info),
        }
    }

    /// Waits for NodeGetInfo as long as other calls may take.
    pub(super) async fn soon<F: Future>(
        &self,
        call: Pin<&mut F>,
    ) -> Result<F::Output, DriverError> {
        let so_far = self.settings.request_timeout;
        let deadline = self.settings.node_info_timeout;
        if deadline <= so_far {
            // The call ends by its own deadline.
            return Ok(call.await);
        }
        timeout(so_far, call)
            .await
            .map_err(|_| DriverError::Slow { so_far, deadline })
    }

    pub(super) async fn call<T>(
        &self,
        method: &'static str,
        reply: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Timed<T> {
        let begun = Instant::now();
        let (answer, code) = match self.in_time(method, reply).await {
            Ok(Ok(reply)) => (Ok(reply.into_inner()), Code::Ok),
            Ok(Err(status)) => (Err(failed(method, &status)), status.code()),
            Err(late) => (Err(late), Code::DeadlineExceeded),
        };
        let took = begun.elapsed();
        let call = CsiCall { method, took, code };
        Timed { answer, call }
    }

    async fn in_time<T>(
        &self,
        step: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, DriverError> {
        let deadline = match step {
            NODE_GET_INFO => self.settings.node_info_timeout,
            _ => self.settings.request_timeout,
        };
        timeout(deadline, work)
            .await
            .map_err(|_| DriverError::TimedOut {
                socket: self.path().to_owned(),
                step,
                deadline,
            })
    }
}

fn failed(method: &'static str, status: &Status) -> DriverError {
    match (method, status.code()) {
        (NODE_GET_INFO, Code::Unimplemented) => DriverError::NoNodeService,
        (_, code) => DriverError::Call {
            method,
            code,
            message: printable(status.message()),
        },
    }
}

pub(super) fn identity_client(channel: &Channel) -> IdentityClient<Channel> {
    IdentityClient::with_origin(channel.clone(), client::origin())
        .max_decoding_message_size(MESSAGE_LIMIT)
}

pub(super) fn controller_client(channel: &Channel) -> ControllerClient<Channel> {
    ControllerClient::with_origin(channel.clone(), client::origin())
        .max_decoding_message_size(MESSAGE_LIMIT)
}

pub(super) fn node_client(channel: &Channel) -> NodeClient<Channel> {
    NodeClient::with_origin(channel.clone(), client::origin())
        .max_decoding_message_size(MESSAGE_LIMIT)
}
