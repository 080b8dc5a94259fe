//! One inquiry: connect to csi.sock and ask the driver who it is, each step with a deadline.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use thiserror::Error;
use tokio::time::{Instant, timeout};
use tonic::{Code, Response, Status};

use super::answer::{Answer, AnswerError};
use super::exposure::Exposure;
use crate::config::{DriverSettings, SUN_PATH_MAX};
use crate::grpc::client::{self, Broken, Channel, ConnectError, Ended, MESSAGE_LIMIT};
use crate::grpc::lifeline::Lifeline;
use crate::identity::Identity;
use crate::metrics::{Account, Operation, Operations};
use crate::name::DriverName;
use crate::printable::printable;
use crate::proto::csi::identity_client::IdentityClient;
use crate::proto::csi::node_client::NodeClient;
use crate::proto::csi::{GetPluginInfoRequest, NodeGetInfoRequest, ProbeRequest, ProbeResponse};

/// What to ask, where, and how long to wait for it.
#[derive(Debug)]
pub(crate) struct Inquiry {
    pub(crate) socket: PathBuf,
    pinned: Option<String>,
    deadline: Duration,
    require_probe: bool,
    /// Nobody named this socket: whoever may write to its directory could be the driver.
    found: bool,
    account: Account,
}

/// A call that has ended, well or not.
pub(crate) struct Asked<T> {
    pub(crate) answer: Result<T, Trouble>,
    pub(crate) operation: Operation,
}

/// Why the driver is no use yet.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    #[error("waiting for {}", .0.display())]
    Absent(PathBuf),
    #[error("waiting for {}: {} is missing", .socket.display(), .missing.display())]
    NoDirectory { socket: PathBuf, missing: PathBuf },
    #[error("{} is no socket", .0.display())]
    NoSocket(PathBuf),
    #[error("cannot look at {}: {source}", .socket.display())]
    Unseen { socket: PathBuf, source: io::Error },
    #[error(transparent)]
    Exposed(#[from] Exposure),
    #[error("{} is {length} bytes long, and the path of a socket may have {SUN_PATH_MAX}", .socket.display())]
    LongPath { socket: PathBuf, length: usize },
    #[error("nobody listens on {}", .0.display())]
    Refused(PathBuf),
    #[error(
        "may not connect to {}: {source}; a socket of another user needs CAP_DAC_OVERRIDE in the unit",
        .socket.display()
    )]
    Forbidden {
        socket: PathBuf,
        source: ConnectError,
    },
    #[error("{}: {source}", .socket.display())]
    Connect {
        socket: PathBuf,
        source: ConnectError,
    },
    #[error("{} does not answer: {step} took longer than {deadline:?}", .socket.display())]
    TimedOut {
        socket: PathBuf,
        step: &'static str,
        deadline: Duration,
    },
    #[error("{} closed the connection before it answered", .0.display())]
    Closed(PathBuf),
    #[error("the connection to {} broke before it answered: {source}", .socket.display())]
    Broken { socket: PathBuf, source: Broken },
    #[error("{method} failed: {code:?}: {message}")]
    Call {
        method: &'static str,
        code: Code,
        message: String,
    },
    #[error(
        "the driver has no Node service (NodeGetInfo is unimplemented), so there is nothing to register"
    )]
    NoNodeService,
    #[error("the driver is still starting (Probe says not ready)")]
    NotReady,
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error("the driver hangs: {0}")]
    Hung(Box<Trouble>),
    #[error("the driver closed its connection")]
    Gone,
    #[error("{} was removed", .0.display())]
    Removed(PathBuf),
}

/// A driver that has answered.
pub(crate) struct Acquaintance {
    /// Resolves when the driver goes.
    pub(crate) gone: Pin<Box<dyn Future<Output = ()> + Send>>,
    /// The socket that was connected to.
    pub(crate) identity: Identity,
}

impl Inquiry {
    pub(crate) fn new(settings: &DriverSettings, operations: Operations) -> Inquiry {
        Inquiry {
            socket: settings.csi_socket.clone(),
            pinned: settings.name.clone(),
            deadline: settings.request_timeout,
            require_probe: settings.require_probe,
            found: false,
            account: Account::new(operations),
        }
    }

    /// The same for a socket that was found rather than named.
    pub(crate) fn found(settings: &DriverSettings, operations: Operations) -> Inquiry {
        Inquiry {
            found: true,
            ..Inquiry::new(settings, operations)
        }
    }

    /// The socket as it is on disk now.
    pub(crate) fn look(&self) -> Result<Identity, Trouble> {
        if self.found {
            self.is_acceptable()?;
        }
        match std::fs::metadata(&self.socket) {
            Ok(metadata) if is_socket(&metadata) => Ok(Identity::from_parts(&metadata, None)),
            Ok(_) => Err(Trouble::NoSocket(self.socket.clone())),
            Err(error) if is_missing(&error) => Err(self.absent()),
            Err(source) => Err(Trouble::Unseen {
                socket: self.socket.clone(),
                source,
            }),
        }
    }

    /// What the configuration checks for a socket that is named in it.
    fn is_acceptable(&self) -> Result<(), Trouble> {
        let length = self.socket.as_os_str().len();
        if length > SUN_PATH_MAX {
            return Err(Trouble::LongPath {
                socket: self.socket.clone(),
                length,
            });
        }
        match self.socket.parent().map(Exposure::of).transpose() {
            Ok(exposure) => Ok(exposure.flatten().map_or(Ok(()), Err)?),
            // Then the socket itself cannot be looked at, and that says why.
            Err(_) => Ok(()),
        }
    }

    /// Asks, and holds a connection whose end tells that the driver went. That one is made first,
    /// if only by microseconds: it ends with whoever listens now, so that an answer of their
    /// successor does not pass for theirs.
    pub(crate) async fn begin(&self) -> Result<(Acquaintance, Answer), Trouble> {
        let identity = self.look()?;
        let (lifeline, connection) = tokio::join!(
            self.in_time("connecting", Lifeline::connect(&self.socket)),
            self.connect(),
        );
        let lifeline = lifeline?.map_err(|error| self.refused(ConnectError::Connect(error)))?;
        let answer = self.ask_over(connection?).await?;
        let gone = Box::pin(lifeline.ended());
        Ok((Acquaintance { gone, identity }, answer))
    }

    /// Asks over a connection of its own.
    pub(crate) async fn again(&self) -> Result<Answer, Trouble> {
        self.ask_over(self.connect().await?).await
    }

    async fn ask_over(&self, (channel, mut ended): (Channel, Ended)) -> Result<Answer, Trouble> {
        self.until(&mut ended, self.ask(&channel)).await?
    }

    pub(super) async fn connect(&self) -> Result<(Channel, Ended), Trouble> {
        self.in_time("connecting", client::connect(&self.socket))
            .await?
            .map_err(|error| self.refused(error))
    }

    fn refused(&self, source: ConnectError) -> Trouble {
        let socket = self.socket.clone();
        match &source {
            ConnectError::Connect(error) => match error.kind() {
                io::ErrorKind::ConnectionRefused => Trouble::Refused(socket),
                io::ErrorKind::PermissionDenied => Trouble::Forbidden { socket, source },
                _ if is_missing(error) => self.absent(),
                _ => Trouble::Connect { socket, source },
            },
            ConnectError::Handshake(_) => Trouble::Connect { socket, source },
        }
    }

    /// Does the work while the connection lasts.
    pub(super) async fn until<T>(
        &self,
        ended: &mut Ended,
        work: impl Future<Output = T>,
    ) -> Result<T, Trouble> {
        tokio::select! {
            done = work => Ok(done),
            end = ended => Err(match end {
                Ok(()) => Trouble::Closed(self.socket.clone()),
                Err(source) => Trouble::Broken {
                    socket: self.socket.clone(),
                    source,
                },
            }),
        }
    }

    /// The two calls go out at once: neither needs the other's answer.
    async fn ask(&self, channel: &Channel) -> Result<Answer, Trouble> {
        let mut identity = identity_client(channel);
        let mut probing = identity.clone();
        let mut node = node_client(channel);
        let (info, node, ready) = tokio::join!(
            self.call(
                "GetPluginInfo",
                identity.get_plugin_info(GetPluginInfoRequest {})
            ),
            self.call("NodeGetInfo", node.node_get_info(NodeGetInfoRequest {})),
            self.probe(&mut probing),
        );
        let said = info.answer.as_ref().ok();
        let name = said.and_then(|info| DriverName::parse(&info.name).ok());
        let name = name.as_ref().map(DriverName::as_str);
        let calls = [Some(info.operation), Some(node.operation)];
        let probe = ready.as_ref().map(|ready| ready.operation);
        let calls = calls.into_iter().chain([probe]).flatten();
        self.account.ended(name, calls);
        let node = node.answer.map_err(|trouble| match trouble {
            Trouble::Call {
                code: Code::Unimplemented,
                ..
            } => Trouble::NoNodeService,
            other => other,
        });
        let answer = Answer::check(info.answer?, node?, self.pinned.as_deref())?;
        if let Some(probe) = ready
            && !probe.answer?.ready.unwrap_or(true)
        {
            return Err(Trouble::NotReady);
        }
        Ok(answer)
    }

    async fn probe(&self, identity: &mut IdentityClient<Channel>) -> Option<Asked<ProbeResponse>> {
        if !self.require_probe {
            return None;
        }
        Some(self.call("Probe", identity.probe(ProbeRequest {})).await)
    }

    pub(super) async fn call<T>(
        &self,
        method: &'static str,
        reply: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Asked<T> {
        let begun = Instant::now();
        let (answer, code) = match self.in_time(method, reply).await {
            Ok(Ok(reply)) => (Ok(reply.into_inner()), Code::Ok),
            Ok(Err(status)) => {
                let code = status.code();
                let message = printable(status.message());
                (
                    Err(Trouble::Call {
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
        Asked {
            answer,
            operation: Operation { method, took, code },
        }
    }

    async fn in_time<T>(
        &self,
        step: &'static str,
        work: impl Future<Output = T>,
    ) -> Result<T, Trouble> {
        timeout(self.deadline, work)
            .await
            .map_err(|_| Trouble::TimedOut {
                socket: self.socket.clone(),
                step,
                deadline: self.deadline,
            })
    }

    fn absent(&self) -> Trouble {
        match self.first_missing() {
            Some(missing) => Trouble::NoDirectory {
                socket: self.socket.clone(),
                missing,
            },
            None => Trouble::Absent(self.socket.clone()),
        }
    }

    /// The topmost directory on the way that is not there.
    fn first_missing(&self) -> Option<PathBuf> {
        let mut missing = None;
        for directory in self
            .socket
            .ancestors()
            .skip(1)
            .take_while(|path| *path != Path::new("/"))
        {
            if directory.exists() {
                break;
            }
            missing = Some(directory.to_owned());
        }
        missing
    }
}

impl Trouble {
    /// Nothing can change until somebody makes a file.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(
            self,
            Trouble::Absent(_) | Trouble::NoDirectory { .. } | Trouble::NoSocket(_)
        )
    }

    /// Trying again is of no use before something changes on disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        self.is_absence() || matches!(self, Trouble::Exposed(_) | Trouble::LongPath { .. })
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

fn is_socket(metadata: &std::fs::Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_socket(&metadata.file_type())
}

fn is_missing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
