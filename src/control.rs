//! The control socket: how client commands speak to the daemon.

#[cfg(test)]
mod fuzz;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Code, Response, async_trait};

use crate::directory;
use crate::driver::Record;
use crate::grpc::client::{self, Channel, ConnectError};
use crate::grpc::server::{self, Busy, Limits, Peer, Reception};
use crate::identity::Identity;
use crate::link::sweep::sweep_stage;
use crate::printable::printable;
use crate::proto::control::control_client::ControlClient;
use crate::proto::control::control_server::{Control, ControlServer};
use crate::proto::control::{
    Done, DriverRequest, Handover, ReloadRequest, Reloaded, Status, StatusRequest,
};
use crate::socket::{Staged, is_alive};
use crate::supervisor::{Hand, Report, Request};
use crate::task::Task;

/// A client may watch for hours without asking anything more.
const LIMITS: Limits = Limits {
    connections: 64,
    first: Duration::from_secs(5),
    idle: Duration::from_secs(24 * 3600),
};
/// A watching client is told at most this often.
const PACE: Duration = Duration::from_millis(50);
/// How long a client waits for the daemon to take its connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The largest message that is taken from a client: what is known of one driver.
const MESSAGE_LIMIT: usize = 64 * 1024;
/// A status of a thousand drivers fits.
const LARGEST_STATUS: usize = 16 * 1024 * 1024;

/// Why the control socket cannot be served.
#[derive(Debug, Error)]
#[error("cannot listen on {}: {source}", .path.display())]
pub(crate) struct ControlError {
    path: PathBuf,
    source: io::Error,
}

/// Why a client got no answer.
#[derive(Debug, Error)]
pub(crate) enum ClientError {
    #[error(
        "node-storage-driver-registrar is not running (nobody listens on {}): systemctl start node-storage-driver-registrar, or name its --runtime-dir",
        .0.display()
    )]
    NoDaemon(PathBuf),
    #[error("may not connect to {}: only root and the daemon's own user may ask it", .0.display())]
    Forbidden(PathBuf),
    #[error("{}: {source}", .path.display())]
    Connect { path: PathBuf, source: ConnectError },
    #[error(
        "the daemon does not answer on {}: it hangs, or has too many to answer; see journalctl -u node-storage-driver-registrar",
        .0.display()
    )]
    Silent(PathBuf),
    #[error("the daemon has stopped")]
    Stopped,
    /// The daemon's no.
    #[error("{0}")]
    Refused(String),
    #[error("the daemon's answer was lost: {0}")]
    Lost(String),
}

/// Serves the control socket, with requests to the supervisor going out through `reports`. With each
/// of the supervisor's slow looks it is seen whether it is still there.
pub(crate) fn serve(
    path: PathBuf,
    reports: mpsc::UnboundedSender<Report>,
    changes: watch::Receiver<u64>,
    mut looks: watch::Receiver<()>,
) -> Result<Task, ControlError> {
    // The lock in this directory is ours, so whatever is there is a leftover.
    sweep_stage(directory::of(&path));
    let front = Front { reports, changes };
    let mut place = Place::take(&path, front.clone())?;
    Ok(Task::spawn(async move {
        let mut failing = false;
        while looks.changed().await.is_ok() {
            if place.identity.is_at(&path) || is_alive(&path) {
                failing = false;
                continue;
            }
            // The supervisor makes it, and tells when it cannot.
            if !directory::of(&path).is_dir() {
                continue;
            }
            match Place::take(&path, front.clone()) {
                Ok(anew) => {
                    place = anew;
                    failing = false;
                    tracing::warn!(path = %path.display(), "the control socket was gone and was made anew");
                }
                Err(error) if !failing => {
                    failing = true;
                    tracing::error!("status and other commands do not reach the daemon: {error}");
                }
                Err(_) => {}
            }
        }
    }))
}

/// The socket on disk, and who answers there.
struct Place {
    identity: Identity,
    _server: Task,
}

impl Place {
    fn take(path: &Path, front: Front) -> Result<Place, ControlError> {
        let failed = |source| ControlError {
            path: path.to_owned(),
            source,
        };
        let staged = Staged::bind(directory::of(path)).map_err(failed)?;
        let listener = staged.put(path).map_err(failed)?;
        Ok(Place {
            identity: Identity::of(path).map_err(failed)?,
            _server: Task::spawn(async move {
                let (_retire, retired) = oneshot::channel();
                server::serve(listener, LIMITS, front, retired).await;
            }),
        })
    }
}

#[derive(Clone)]
struct Front {
    reports: mpsc::UnboundedSender<Report>,
    changes: watch::Receiver<u64>,
}

impl Reception for Front {
    type Io = UnixStream;
    type Service = ControlServer<Session>;

    fn receive(&self, stream: UnixStream, _peer: Peer, busy: Busy) -> (Self::Io, Self::Service) {
        let session = Session {
            reports: self.reports.clone(),
            changes: self.changes.clone(),
            busy,
        };
        let service = ControlServer::new(session).max_decoding_message_size(MESSAGE_LIMIT);
        (stream, service)
    }
}

/// One client's connection.
struct Session {
    reports: mpsc::UnboundedSender<Report>,
    changes: watch::Receiver<u64>,
    busy: Busy,
}

impl Session {
    async fn by_hand(
        &self,
        hand: Hand,
        request: DriverRequest,
    ) -> Result<Response<Done>, tonic::Status> {
        self.busy.touch();
        let (done, outcome) = oneshot::channel();
        let driver = request.driver;
        outcome_of(ask(&self.reports, Request::Hand { hand, driver, done }, outcome).await?)
    }
}

fn outcome_of(outcome: Result<(), String>) -> Result<Response<Done>, tonic::Status> {
    outcome
        .map(|()| Response::new(Done {}))
        .map_err(tonic::Status::failed_precondition)
}

#[async_trait]
impl Control for Session {
    type WatchStatusStream = StatusStream;

    async fn get_status(
        &self,
        _: tonic::Request<StatusRequest>,
    ) -> Result<Response<Status>, tonic::Status> {
        self.busy.touch();
        Ok(Response::new(status(&self.reports).await?))
    }

    async fn watch_status(
        &self,
        _: tonic::Request<StatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, tonic::Status> {
        self.busy.touch();
        let (reports, mut changes) = (self.reports.clone(), self.changes.clone());
        let busy = self.busy.clone();
        let (sender, statuses) = mpsc::channel(1);
        let follower = Task::spawn(async move {
            loop {
                changes.mark_unchanged();
                let now = status(&reports).await;
                let over = now.is_err();
                if sender.send(now).await.is_err()
                    || over
                    || next_change(&mut changes, &busy).await.is_err()
                {
                    return;
                }
                tokio::time::sleep(PACE).await;
            }
        });
        Ok(Response::new(StatusStream {
            statuses,
            _follower: follower,
        }))
    }

    async fn reannounce(
        &self,
        request: tonic::Request<DriverRequest>,
    ) -> Result<Response<Done>, tonic::Status> {
        self.by_hand(Hand::Reannounce, request.into_inner()).await
    }

    async fn withdraw(
        &self,
        request: tonic::Request<DriverRequest>,
    ) -> Result<Response<Done>, tonic::Status> {
        self.by_hand(Hand::Withdraw, request.into_inner()).await
    }

    async fn publish(
        &self,
        request: tonic::Request<DriverRequest>,
    ) -> Result<Response<Done>, tonic::Status> {
        self.by_hand(Hand::Publish, request.into_inner()).await
    }

    async fn take_up(
        &self,
        request: tonic::Request<Handover>,
    ) -> Result<Response<Done>, tonic::Status> {
        self.busy.touch();
        let Handover { driver, record } = request.into_inner();
        let record: Record = serde_json::from_slice(&record)
            .map_err(|error| tonic::Status::invalid_argument(error.to_string()))?;
        let (done, outcome) = oneshot::channel();
        let request = Request::TakeUp {
            driver,
            record: Box::new(record),
            done,
        };
        outcome_of(ask(&self.reports, request, outcome).await?)
    }

    async fn reload(
        &self,
        _: tonic::Request<ReloadRequest>,
    ) -> Result<Response<Reloaded>, tonic::Status> {
        self.busy.touch();
        let (done, outcome) = oneshot::channel();
        let outcome = ask(&self.reports, Request::Reload(done), outcome).await?;
        // Not as the message of an error, which is a header and has to be short.
        let refusal = outcome.err().unwrap_or_default();
        Ok(Response::new(Reloaded { refusal }))
    }
}

/// Waits for the next change. Who watches asks nothing more, and is not idle.
async fn next_change(
    changes: &mut watch::Receiver<u64>,
    busy: &Busy,
) -> Result<(), watch::error::RecvError> {
    loop {
        busy.touch();
        if let Ok(changed) = timeout(LIMITS.idle / 2, changes.changed()).await {
            return changed;
        }
    }
}

async fn status(reports: &mpsc::UnboundedSender<Report>) -> Result<Status, tonic::Status> {
    let (answer, answered) = oneshot::channel();
    ask(reports, Request::Status(answer), answered).await
}

async fn ask<T>(
    reports: &mpsc::UnboundedSender<Report>,
    request: Request,
    answer: oneshot::Receiver<T>,
) -> Result<T, tonic::Status> {
    let stopping = || tonic::Status::unavailable("the daemon is stopping");
    reports
        .send(Report::Request(request))
        .map_err(|_| stopping())?;
    answer.await.map_err(|_| stopping())
}

/// Statuses as they change. The task that follows the changes ends with it.
struct StatusStream {
    statuses: mpsc::Receiver<Result<Status, tonic::Status>>,
    _follower: Task,
}

impl Stream for StatusStream {
    type Item = Result<Status, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.statuses.poll_recv(cx)
    }
}

/// A connection to the daemon.
pub(crate) struct Client {
    path: PathBuf,
    control: ControlClient<Channel>,
    _connection: Task,
}

impl Client {
    pub(crate) async fn connect(path: &Path) -> Result<Client, ClientError> {
        let connecting = timeout(PATIENCE, client::connect(path)).await;
        let (channel, ended) = connecting
            .map_err(|_| ClientError::Silent(path.to_owned()))?
            .map_err(|source| no_daemon(path, source))?;
        let control = ControlClient::with_origin(channel, client::origin())
            .max_decoding_message_size(LARGEST_STATUS);
        Ok(Client {
            path: path.to_owned(),
            control,
            _connection: Task::spawn(async move {
                if let Err(error) = ended.await {
                    tracing::debug!(%error, "the connection to the daemon broke");
                }
            }),
        })
    }

    pub(crate) async fn status(&mut self) -> Result<Status, ClientError> {
        answer(&self.path, self.control.get_status(StatusRequest {})).await
    }

    /// The status now and at each change.
    pub(crate) async fn watch(&mut self) -> Result<Statuses, ClientError> {
        let statuses = self.control.watch_status(StatusRequest {});
        answer(&self.path, statuses).await.map(Statuses)
    }

    /// Calls `show` with the status now and at each change, until it says that it has seen enough.
    pub(crate) async fn follow(
        &mut self,
        mut show: impl FnMut(Status) -> bool,
    ) -> Result<(), ClientError> {
        let mut statuses = self.watch().await?;
        while !show(statuses.next().await?) {}
        Ok(())
    }

    pub(crate) async fn by_hand(&mut self, hand: Hand, driver: &str) -> Result<(), ClientError> {
        let request = DriverRequest {
            driver: driver.to_owned(),
        };
        let control = &mut self.control;
        let done = match hand {
            Hand::Reannounce => answer(&self.path, control.reannounce(request)).await,
            Hand::Withdraw => answer(&self.path, control.withdraw(request)).await,
            Hand::Publish => answer(&self.path, control.publish(request)).await,
        };
        done.map(drop)
    }

    /// Leaves a driver to the daemon, with what we know of it.
    pub(crate) async fn take_up(
        &mut self,
        driver: &str,
        record: &Record,
    ) -> Result<(), ClientError> {
        let record = serde_json::to_vec(record).map_err(|e| ClientError::Lost(e.to_string()))?;
        let handover = Handover {
            driver: driver.to_owned(),
            record,
        };
        let done = answer(&self.path, self.control.take_up(handover)).await;
        done.map(drop)
    }

    pub(crate) async fn reload(&mut self) -> Result<(), ClientError> {
        let reloaded = answer(&self.path, self.control.reload(ReloadRequest {})).await?;
        if reloaded.refusal.is_empty() {
            Ok(())
        } else {
            Err(ClientError::Refused(reloaded.refusal))
        }
    }
}

/// The answer of the daemon behind `path`, if it comes in time.
async fn answer<T>(
    path: &Path,
    call: impl Future<Output = Result<Response<T>, tonic::Status>>,
) -> Result<T, ClientError> {
    match timeout(PATIENCE, call).await {
        Ok(answer) => Ok(answer.map_err(refused)?.into_inner()),
        Err(_) => Err(ClientError::Silent(path.to_owned())),
    }
}

/// Statuses as they come from the daemon.
pub(crate) struct Statuses(tonic::Streaming<Status>);

impl Statuses {
    /// The next one, however long it takes.
    pub(crate) async fn next(&mut self) -> Result<Status, ClientError> {
        match self.0.message().await {
            Ok(Some(status)) => Ok(status),
            // A daemon that stops may end the stream in order or just close the connection.
            Ok(None) => Err(ClientError::Stopped),
            Err(status) if std::error::Error::source(&status).is_some() => {
                Err(ClientError::Stopped)
            }
            Err(status) => Err(refused(status)),
        }
    }
}

fn no_daemon(path: &Path, source: ConnectError) -> ClientError {
    match &source {
        ConnectError::Connect(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
            ) =>
        {
            ClientError::NoDaemon(path.to_owned())
        }
        ConnectError::Connect(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            ClientError::Forbidden(path.to_owned())
        }
        _ => ClientError::Connect {
            path: path.to_owned(),
            source,
        },
    }
}

fn refused(status: tonic::Status) -> ClientError {
    match status.code() {
        Code::InvalidArgument | Code::FailedPrecondition => {
            ClientError::Refused(status.message().to_owned())
        }
        Code::Unavailable => ClientError::Stopped,
        _ => ClientError::Lost(printable(status.message())),
    }
}
