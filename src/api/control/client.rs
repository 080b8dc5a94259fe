//! The client of the control socket: its requests to the daemon, and the reasons why it gets no answer.

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::timeout;
use tonic::{Code, Response};

use crate::api::command::ManualAction;
use crate::grpc::client::{self, Channel, ConnectError};
#[cfg(feature = "cluster")]
use crate::grpc::proto::control::ClusterReport;
use crate::grpc::proto::control::control_client::ControlClient;
use crate::grpc::proto::control::{DriverRequest, ReloadRequest, Status, StatusRequest};
use crate::os::task::Task;
use crate::os::text::printable;

/// How long a client waits for the daemon to take its connection, and for each answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The same for an answer before which the daemon looks at the volumes in use, perhaps for the second time, and asks
/// systemd.
const LONG_PATIENCE: Duration = Duration::from_secs(10);
/// A status of a thousand drivers fits.
const LARGEST_STATUS: usize = 16 * 1024 * 1024;

/// Why a client got no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error(
        "node-storage-driver-registrar is not running (no process listens on {}): systemctl start node-storage-driver-registrar, or name its --runtime-dir",
        .0.display()
    )]
    NoDaemon(PathBuf),
    #[error("may not connect to {}: only root and the daemon's own user may ask it", .0.display())]
    Forbidden(PathBuf),
    #[error("{}: {source}", .path.display())]
    Connect { path: PathBuf, source: ConnectError },
    #[error(
        "the daemon does not answer on {}: it hangs, or has too many clients; see journalctl -u node-storage-driver-registrar",
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
        let status = self.control.get_status(StatusRequest { volumes: false });
        answer(&self.path, status).await
    }

    /// The status with the volumes in use, for which the daemon reads the kubelet's files.
    pub(crate) async fn status_with_volumes(&mut self) -> Result<Status, ClientError> {
        let status = self.control.get_status(StatusRequest { volumes: true });
        answer(&self.path, status).await
    }

    /// The status now and at each change.
    pub(crate) async fn watch(&mut self, request: StatusRequest) -> Result<Statuses, ClientError> {
        let statuses = self.control.watch_status(request);
        answer(&self.path, statuses).await.map(Statuses)
    }

    pub(crate) async fn by_hand(
        &mut self,
        hand: ManualAction,
        driver: &str,
    ) -> Result<(), ClientError> {
        let request = DriverRequest {
            driver: driver.to_owned(),
            force: matches!(hand, ManualAction::Withdraw { force: true }),
            lost_in_cluster: matches!(hand, ManualAction::Repair { .. }),
            registrations: match hand {
                ManualAction::Repair { registrations } => registrations,
                _ => 0,
            },
        };
        let control = &mut self.control;
        let done = match hand {
            ManualAction::Reannounce | ManualAction::Repair { .. } => {
                answer(&self.path, control.reannounce(request)).await
            }
            ManualAction::Withdraw { .. } => {
                answer_within(LONG_PATIENCE, &self.path, control.withdraw(request)).await
            }
            ManualAction::Publish => answer(&self.path, control.publish(request)).await,
        };
        done.map(drop)
    }

    /// Tells the daemon what was found in the cluster.
    #[cfg(feature = "cluster")]
    pub(crate) async fn report_cluster(&mut self, found: ClusterReport) -> Result<(), ClientError> {
        let done = answer(&self.path, self.control.report_cluster(found)).await;
        done.map(drop)
    }

    pub(crate) async fn reload(&mut self) -> Result<(), ClientError> {
        let reloaded = self.control.reload(ReloadRequest {});
        let reloaded = answer_within(LONG_PATIENCE, &self.path, reloaded).await?;
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
    answer_within(PATIENCE, path, call).await
}

async fn answer_within<T>(
    patience: Duration,
    path: &Path,
    call: impl Future<Output = Result<Response<T>, tonic::Status>>,
) -> Result<T, ClientError> {
    match timeout(patience, call).await {
        Ok(answer) => Ok(answer.map_err(refused)?.into_inner()),
        Err(_) => Err(ClientError::Silent(path.to_owned())),
    }
}

/// Statuses as they come from the daemon.
pub(crate) struct Statuses(tonic::Streaming<Status>);

impl Statuses {
    /// The next status, however long it takes.
    pub(crate) async fn next(&mut self) -> Result<Status, ClientError> {
        match self.0.message().await {
            Ok(Some(status)) => Ok(status),
            // A daemon that stops may end the stream in order or just close the connection.
            Err(status) if status.source().is_none() => Err(refused(status)),
            Ok(None) | Err(_) => Err(ClientError::Stopped),
        }
    }
}

fn no_daemon(path: &Path, source: ConnectError) -> ClientError {
    use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    let path = path.to_owned();
    let kind = match &source {
        ConnectError::Connect(error) => Some(error.kind()),
        ConnectError::Handshake(_) => None,
    };
    match kind {
        Some(NotFound | ConnectionRefused) => ClientError::NoDaemon(path),
        Some(PermissionDenied) => ClientError::Forbidden(path),
        Some(_) | None => ClientError::Connect { path, source },
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
