//! The control socket: how client commands speak to the daemon.

mod client;
#[cfg(test)]
mod fuzz;

use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use thiserror::Error;
use tokio::net::UnixStream;
use tokio::sync::watch::error::RecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Response, async_trait};

pub(crate) use client::{Client, ClientError};

use crate::api::command::{Command, Commands, ManualAction};
use crate::api::snapshot::{Snapshots, Unavailable};
use crate::disk::directory;
use crate::disk::identity::Identity;
use crate::disk::runtime_dir;
use crate::disk::socket::{Staged, is_alive};
use crate::disk::sweep::sweep_stage;
use crate::driver::Record;
use crate::grpc::MESSAGE_LIMIT;
use crate::grpc::proto::control::control_server::{Control, ControlServer};
use crate::grpc::proto::control::{
    Done, DriverRequest, Handover, ReloadRequest, Reloaded, Status, StatusRequest,
};
use crate::grpc::server::{self, Activity, Limits, MakeService, Peer};
use crate::os::task::Task;

/// A client may watch for hours without asking anything more.
const LIMITS: Limits = Limits {
    connections: 64,
    first: Duration::from_secs(5),
    idle: Duration::from_secs(24 * 3600),
};
/// A watching client is told at most this often.
const PACE: Duration = Duration::from_millis(50);

/// Why the control socket cannot be served.
#[derive(Debug, Error)]
#[error("cannot listen on {}: {source}", .path.display())]
pub(crate) struct ControlError {
    path: PathBuf,
    source: io::Error,
}

/// Serves the control socket, with the commands of clients going out through `commands`. With each
/// of the supervisor's slow looks it is seen whether it is still there.
pub(crate) fn serve(
    runtime: runtime_dir::Place,
    commands: Commands,
    snapshots: Snapshots,
    mut looks: watch::Receiver<()>,
) -> Result<Task, ControlError> {
    let path = runtime.control_socket();
    // The lock in this directory is ours, so whatever is there is a leftover.
    sweep_stage(directory::of(&path));
    let front = ControlSessions {
        commands,
        snapshots,
    };
    let mut place = Place::take(&path, front.clone())?;
    Ok(Task::spawn(async move {
        let mut failing = false;
        while looks.changed().await.is_ok() {
            if place.identity.is_at(&path) || is_alive(&path) {
                failing = false;
                continue;
            }
            // The supervisor makes it, and tells when it cannot or does not trust it.
            if !directory::of(&path).is_dir() || runtime.fault().is_some() {
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
    fn take(path: &Path, front: ControlSessions) -> Result<Place, ControlError> {
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
struct ControlSessions {
    commands: Commands,
    snapshots: Snapshots,
}

impl MakeService for ControlSessions {
    type Io = UnixStream;
    type Service = ControlServer<Session>;

    fn receive(
        &self,
        stream: UnixStream,
        _peer: Peer,
        busy: Activity,
    ) -> (Self::Io, Self::Service) {
        let session = Session {
            commands: self.commands.clone(),
            snapshots: self.snapshots.clone(),
            busy,
        };
        let service = ControlServer::new(session).max_decoding_message_size(MESSAGE_LIMIT);
        (stream, service)
    }
}

/// One client's connection.
struct Session {
    commands: Commands,
    snapshots: Snapshots,
    busy: Activity,
}

impl Session {
    async fn run(&self, command: Command) -> Result<Response<Done>, tonic::Status> {
        self.busy.touch();
        let outcome = self.commands.run(command).await;
        let outcome =
            outcome.map_err(|stopping| tonic::Status::unavailable(stopping.to_string()))?;
        let done = outcome.map(|()| Response::new(Done {}));
        done.map_err(tonic::Status::failed_precondition)
    }

    async fn by_hand(
        &self,
        action: ManualAction,
        request: tonic::Request<DriverRequest>,
    ) -> Result<Response<Done>, tonic::Status> {
        let driver = request.into_inner().driver;
        self.run(Command::Manual { action, driver }).await
    }
}

#[async_trait]
impl Control for Session {
    type WatchStatusStream = StatusStream;

    async fn get_status(
        &self,
        _: tonic::Request<StatusRequest>,
    ) -> Result<Response<Status>, tonic::Status> {
        self.busy.touch();
        Ok(Response::new(status(&mut self.snapshots.clone())?))
    }

    async fn watch_status(
        &self,
        _: tonic::Request<StatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, tonic::Status> {
        self.busy.touch();
        let (mut snapshots, busy) = (self.snapshots.clone(), self.busy.clone());
        let (sender, statuses) = mpsc::channel(1);
        let follower = Task::spawn(async move {
            loop {
                let now = status(&mut snapshots);
                let over = now.is_err();
                if sender.send(now).await.is_err()
                    || over
                    || next_change(&mut snapshots, &busy).await.is_err()
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
        self.by_hand(ManualAction::Reannounce, request).await
    }

    async fn withdraw(
        &self,
        request: tonic::Request<DriverRequest>,
    ) -> Result<Response<Done>, tonic::Status> {
        self.by_hand(ManualAction::Withdraw, request).await
    }

    async fn publish(
        &self,
        request: tonic::Request<DriverRequest>,
    ) -> Result<Response<Done>, tonic::Status> {
        self.by_hand(ManualAction::Publish, request).await
    }

    async fn take_up(
        &self,
        request: tonic::Request<Handover>,
    ) -> Result<Response<Done>, tonic::Status> {
        let Handover { driver, record } = request.into_inner();
        let record: Record = serde_json::from_slice(&record)
            .map_err(|error| tonic::Status::invalid_argument(error.to_string()))?;
        let record = Box::new(record);
        self.run(Command::TakeUp { driver, record }).await
    }

    async fn reload(
        &self,
        _: tonic::Request<ReloadRequest>,
    ) -> Result<Response<Reloaded>, tonic::Status> {
        self.busy.touch();
        let outcome = self.commands.run(Command::Reload).await;
        let outcome =
            outcome.map_err(|stopping| tonic::Status::unavailable(stopping.to_string()))?;
        // Not as the message of an error, which is a header and has to be short.
        let refusal = outcome.err().unwrap_or_default();
        Ok(Response::new(Reloaded { refusal }))
    }
}

/// Waits for the next change. A client that watches sends nothing more, and is not idle.
async fn next_change(snapshots: &mut Snapshots, busy: &Activity) -> Result<(), RecvError> {
    loop {
        busy.touch();
        if let Ok(changed) = timeout(LIMITS.idle / 2, snapshots.changed()).await {
            return changed;
        }
    }
}

fn status(snapshots: &mut Snapshots) -> Result<Status, tonic::Status> {
    match snapshots.now() {
        Ok(now) => Ok(now.status()),
        Err(error @ Unavailable::Stopping(_)) => Err(tonic::Status::unavailable(error.to_string())),
        Err(error @ Unavailable::Stalled(_)) => {
            Err(tonic::Status::deadline_exceeded(error.to_string()))
        }
    }
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
