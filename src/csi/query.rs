//! One inquiry: connect to csi.sock and ask the driver who it is, each step with a deadline.

use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};
use tonic::{Code, Response, Status};

use super::csi_socket::CsiSocket;
use super::error::DriverError;
use crate::api::metrics::{Account, Operation, Operations};
use crate::config::DriverSettings;
use crate::disk::directory::is_missing;
use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::socket;
use crate::driver::answer::{self, Answer};
use crate::grpc::client::{self, Channel, ConnectError, Ended, MESSAGE_LIMIT};
use crate::grpc::idle_connection::IdleConnection;
use crate::grpc::proto::csi::identity_client::IdentityClient;
use crate::grpc::proto::csi::node_client::NodeClient;
use crate::grpc::proto::csi::{
    GetPluginInfoRequest, GetPluginInfoResponse, NodeGetInfoRequest, ProbeRequest, ProbeResponse,
};
use crate::os::text::printable;

/// The one call that has a deadline of its own.
pub(crate) const NODE_GET_INFO: &str = "NodeGetInfo";

/// What to ask, where, and how long to wait for it.
#[derive(Debug)]
pub(crate) struct DriverQuery {
    socket: CsiSocket,
    reach: Reach,
    pinned: Option<String>,
    deadline: Duration,
    node_info_deadline: Duration,
    require_probe: bool,
    account: Account,
    /// That the volume limit is below zero was said.
    limit_told: AtomicBool,
}

/// A call that has ended, well or not.
pub(crate) struct Timed<T> {
    pub(crate) answer: Result<T, DriverError>,
    pub(crate) operation: Operation,
}

/// A connection that is held to a driver.
pub(crate) struct DriverConnection {
    /// Resolves when the connection ends.
    pub(crate) ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// When it was made.
    pub(crate) since: Instant,
}

impl DriverQuery {
    pub(crate) fn new(
        settings: &DriverSettings,
        operations: Operations,
        reach: &Reach,
    ) -> DriverQuery {
        DriverQuery {
            socket: CsiSocket {
                path: settings.csi_socket.clone(),
                found: false,
            },
            reach: reach.clone(),
            pinned: settings.name.clone(),
            deadline: settings.request_timeout,
            node_info_deadline: settings.node_info_timeout,
            require_probe: settings.require_probe,
            account: Account::new(operations),
            limit_told: AtomicBool::new(false),
        }
    }

    /// The same for a socket that was found rather than named.
    pub(crate) fn found(
        settings: &DriverSettings,
        operations: Operations,
        reach: &Reach,
    ) -> DriverQuery {
        let mut inquiry = DriverQuery::new(settings, operations, reach);
        inquiry.socket.found = true;
        inquiry
    }

    pub(crate) fn path(&self) -> &Path {
        &self.socket.path
    }

    /// The socket as it is on disk now.
    pub(crate) async fn look(&self) -> Result<Identity, DriverError> {
        let socket = self.socket.clone();
        self.touch(move || socket.look()).await?
    }

    /// Does what may have to wait for a file system.
    async fn touch<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, DriverError> {
        let done = self.reach.look(self.path(), self.deadline, work).await;
        done.map_err(|source| DriverError::OutOfReach {
            socket: self.path().to_owned(),
            source,
        })
    }

    /// Asks, and holds a connection whose end tells that the driver may have gone. That one is made
    /// first, if only by microseconds: it ends with whoever listens now, so that an answer of their
    /// successor does not pass for theirs.
    ///
    /// `slow` is told when NodeGetInfo takes longer than other calls may.
    pub(crate) async fn begin(
        &self,
        slow: impl FnOnce(DriverError),
    ) -> Result<(DriverConnection, Result<Answer, DriverError>), DriverError> {
        let (held, connection) = tokio::join!(self.hold(), self.connect());
        let held = held?;
        let answer = self.ask_over(connection?, slow).await;
        Ok((held, answer))
    }

    /// Holds a connection.
    pub(crate) async fn hold(&self) -> Result<DriverConnection, DriverError> {
        let stream = self.open().await?;
        let lifeline = self
            .in_time("connecting", IdleConnection::over(stream))
            .await?
            .map_err(|error| self.refused(ConnectError::Connect(error)))?;
        Ok(DriverConnection {
            ended: Box::pin(lifeline.ended()),
            since: Instant::now(),
        })
    }

    /// Asks over a connection of its own. A driver that is known may take its time.
    pub(crate) async fn again(&self) -> Result<Answer, DriverError> {
        self.ask_over(self.connect().await?, drop).await
    }

    async fn ask_over(
        &self,
        (channel, mut ended): (Channel, Ended),
        slow: impl FnOnce(DriverError),
    ) -> Result<Answer, DriverError> {
        self.until(&mut ended, self.ask(&channel, slow)).await?
    }

    pub(super) async fn connect(&self) -> Result<(Channel, Ended), DriverError> {
        let stream = self.open().await?;
        self.in_time("connecting", client::over(stream))
            .await?
            .map_err(|error| self.refused(error))
    }

    async fn open(&self) -> Result<UnixStream, DriverError> {
        let path = self.path().to_owned();
        let opened = self.touch(move || socket::open(&path)).await?;
        opened
            .and_then(UnixStream::from_std)
            .map_err(|error| self.refused(ConnectError::Connect(error)))
    }

    fn refused(&self, source: ConnectError) -> DriverError {
        let socket = self.path().to_owned();
        match &source {
            ConnectError::Connect(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => DriverError::Refused(socket),
                io::ErrorKind::PermissionDenied => DriverError::Forbidden { socket, source },
                _ if is_missing(error) => DriverError::Absent(socket),
                _ => DriverError::Connect { socket, source },
            },
            ConnectError::Handshake(_) => DriverError::Connect { socket, source },
        }
    }

    /// Does the work while the connection lasts.
    pub(super) async fn until<T>(
        &self,
        ended: &mut Ended,
        work: impl Future<Output = T>,
    ) -> Result<T, DriverError> {
        tokio::select! {
            done = work => Ok(done),
            end = ended => Err(match end {
                Ok(()) => DriverError::Closed(self.path().to_owned()),
                Err(source) => DriverError::Broken {
                    socket: self.path().to_owned(),
                    source,
                },
            }),
        }
    }

    /// The calls go out at once: none needs the other's answer. NodeGetInfo may take longer than the
    /// others, but is not waited for when they have shown that the driver is no use.
    async fn ask(
        &self,
        channel: &Channel,
        slow: impl FnOnce(DriverError),
    ) -> Result<Answer, DriverError> {
        let mut identity = identity_client(channel);
        let mut probing = identity.clone();
        let mut client = node_client(channel);
        let node = self.call(NODE_GET_INFO, client.node_get_info(NodeGetInfoRequest {}));
        tokio::pin!(node);
        let (info, ready, early) = tokio::join!(
            self.call(
                "GetPluginInfo",
                identity.get_plugin_info(GetPluginInfoRequest {})
            ),
            self.probe(&mut probing),
            self.soon(node.as_mut()),
        );
        let said = info.answer.as_ref().ok();
        let name = said.and_then(|info| DriverName::parse(&info.name).ok());
        let name = name.as_ref().map(DriverName::as_str);
        let probe = ready.as_ref().map(|ready| ready.operation);
        self.account
            .ended(name, [Some(info.operation), probe].into_iter().flatten());
        let identified = self.identified(info.answer, ready.map(|ready| ready.answer));
        let (identified, node) = match (identified, early) {
            (identified, Ok(node)) => (identified, node),
            (Err(trouble), Err(_)) => return Err(trouble),
            (Ok(info), Err(late)) => {
                slow(late);
                (Ok(info), node.await)
            }
        };
        self.account.ended(name, [node.operation]);
        match (identified, node.answer) {
            // A controller is one whatever else it says.
            (
                Ok(_) | Err(DriverError::Answer(_) | DriverError::NotReady),
                Err(DriverError::Call {
                    code: Code::Unimplemented,
                    ..
                }),
            ) => Err(DriverError::NoNodeService),
            (Err(trouble), _) | (Ok(_), Err(trouble)) => Err(trouble),
            (Ok(info), Ok(node)) => {
                self.tell_of_limit(&info, node.max_volumes_per_node);
                Ok(Answer::check(info, node, self.pinned.as_deref())?)
            }
        }
    }

    /// The driver has a name that can be used, and is ready.
    fn identified(
        &self,
        info: Result<GetPluginInfoResponse, DriverError>,
        ready: Option<Result<ProbeResponse, DriverError>>,
    ) -> Result<GetPluginInfoResponse, DriverError> {
        let info = info?;
        answer::name(&info, self.pinned.as_deref())?;
        match ready.transpose()? {
            Some(ProbeResponse { ready: Some(false) }) => Err(DriverError::NotReady),
            Some(_) | None => Ok(info),
        }
    }

    /// Waits for NodeGetInfo for as long as other calls may take.
    pub(super) async fn soon<F: Future>(
        &self,
        call: Pin<&mut F>,
    ) -> Result<F::Output, DriverError> {
        let patience = if self.node_info_deadline > self.deadline {
            self.deadline
        } else {
            // It has its own deadline by then.
            Duration::MAX
        };
        timeout(patience, call)
            .await
            .map_err(|_| DriverError::Slow {
                so_far: self.deadline,
                deadline: self.node_info_deadline,
            })
    }

    /// Says it once, and not each time that the driver is asked.
    fn tell_of_limit(&self, info: &GetPluginInfoResponse, limit: i64) {
        if limit < 0 && !self.limit_told.swap(true, Ordering::Relaxed) {
            let csi_socket = self.path().display();
            let name = printable(&info.name);
            tracing::warn!(%csi_socket, "{name}: max_volumes_per_node is {limit}; below zero means no limit, as for the kubelet");
        }
    }

    async fn probe(&self, identity: &mut IdentityClient<Channel>) -> Option<Timed<ProbeResponse>> {
        if !self.require_probe {
            return None;
        }
        Some(self.call("Probe", identity.probe(ProbeRequest {})).await)
    }

    pub(super) async fn call<T>(
        &self,
        method: &'static str,
        reply: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Timed<T> {
        let begun = Instant::now();
        let (answer, code) = match self.in_time(method, reply).await {
            Ok(Ok(reply)) => (Ok(reply.into_inner()), Code::Ok),
            Ok(Err(status)) => {
                let code = status.code();
                let message = printable(status.message());
                (
                    Err(DriverError::Call {
                        method,
                        code,
                        message,
                    }),
                    code,
                )
            }
            Err(late) => (Err(late), Code::DeadlineExceeded),
        };
        let took = begun.elapsed();
        Timed {
            answer,
            operation: Operation { method, took, code },
        }
    }

    async fn in_time<T>(
        &self,
        step: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, DriverError> {
        let deadline = match step {
            NODE_GET_INFO => self.node_info_deadline,
            _ => self.deadline,
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

pub(super) fn identity_client(channel: &Channel) -> IdentityClient<Channel> {
    IdentityClient::with_origin(channel.clone(), client::origin())
        .max_decoding_message_size(MESSAGE_LIMIT)
}

pub(super) fn node_client(channel: &Channel) -> NodeClient<Channel> {
    NodeClient::with_origin(channel.clone(), client::origin())
        .max_decoding_message_size(MESSAGE_LIMIT)
}
