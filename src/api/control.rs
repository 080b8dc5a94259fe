//! The control socket, over which client commands speak to the daemon.

mod client;

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::watch::error::RecvError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tonic::codegen::tokio_stream::Stream;
use tonic::{Request, Response, async_trait};

pub(crate) use client::{Client, ClientError};

use crate::api::command::{ClientCommand, Commands, ManualAction};
use crate::api::snapshot::{Snapshots, Unavailable};
use crate::api::volumes;
use crate::disk::directory;
use crate::disk::identity::Identity;
use crate::disk::obstacle::Obstacle;
use crate::disk::reg_socket::listen_over_any;
use crate::disk::runtime_dir;
use crate::disk::socket::is_alive;
use crate::disk::sweep::sweep_stage;
use crate::grpc::MESSAGE_LIMIT;
use crate::grpc::proto::control::control_server::{Control, ControlServer};
use crate::grpc::proto::control::{
    ClusterReport, Done, DriverRequest, ReloadRequest, Reloaded, Status, StatusRequest,
};
use crate::grpc::server::{self, Activity, Limits};
use crate::kubelet::volumes::VolumeReader;
use crate::os::task::Task;

/// A client may watch for hours without a further request.
const LIMITS: Limits = Limits {
    connections: 64,
    first: Duration::from_secs(5),
    idle: Duration::from_secs(24 * 3600),
};
/// The shortest time between two statuses for a watching client.
const PACE: Duration = Duration::from_millis(50);
/// A watching client that asks for volumes gets another look so often, because nothing reports their changes.
const LOOK: Duration = Duration::from_secs(10);
/// And so soon after another change: the volumes beside it may have been seen before it.
const LOOK_AFTER_CHANGE: Duration = Duration::from_secs(1);

/// Serves the control socket, and passes the clients' commands on to `commands`. At each of the
/// supervisor's slow looks, recreates a socket that was deleted.
pub(crate) fn serve(
    runtime: runtime_dir::Place,
    commands: Commands,
    snapshots: Snapshots,
    volumes: VolumeReader,
    mut looks: watch::Receiver<()>,
) -> Result<Task, Obstacle> {
    let path = runtime.control_socket();
    // We hold the lock of this directory, so all sockets in it are leftovers.
    sweep_stage(directory::of(&path));
    let daemon = Session {
        commands,
        snapshots,
        volumes,
        busy: Activity::default(),
    };
    let mut server = Server::start(&path, daemon.clone())?;
    Ok(Task::spawn(async move {
        let mut failing = false;
        while looks.changed().await.is_ok() {
            if server.socket.is_at(&path) || is_alive(&path) {
                failing = false;
                continue;
            }
            // The supervisor recreates the directory, and reports a directory that it does not trust.
            if !directory::of(&path).is_dir() || runtime.fault().is_some() {
                continue;
            }
            match Server::start(&path, daemon.clone()) {
                Ok(started) => {
                    server = started;
                    failing = false;
                    tracing::warn!(path = %path.display(), "the control socket was deleted, and is recreated");
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

/// A server, and its socket on disk.
struct Server {
    socket: Identity,
    _task: Task,
}

impl Server {
    fn start(path: &Path, daemon: Session) -> Result<Server, Obstacle> {
        let (listener, socket) = listen_over_any(path)?;
        let task = Task::spawn(async move {
            let (_retire, retired) = oneshot::channel();
            let connected = |stream, _, activity: Activity| {
                let session = Session {
                    busy: activity.clone(),
                    ..daemon.clone()
                };
                let service = ControlServer::new(session).max_decoding_message_size(MESSAGE_LIMIT);
                server::serve_connection(stream, service, activity, LIMITS)
            };
            server::serve(listener, LIMITS, connected, retired).await;
        });
        Ok(Server {
            socket,
            _task: task,
        })
    }
}

/// The daemon as a client reaches it over a connection.
#[derive(Clone)]
struct Session {
    commands: Commands,
    snapshots: Snapshots,
    volumes: VolumeReader,
    busy: Activity,
}

type Reply<T> = Result<Response<T>, tonic::Status>;
type StatusResult = Result<Status, tonic::Status>;

impl Session {
    /// The daemon's outcome, or its refusal in words.
    async fn run(&self, command: ClientCommand) -> Result<Result<(), String>, tonic::Status> {
        self.busy.touch();
        let outcome = self.commands.run(command).await;
        outcome.map_err(|stopping| tonic::Status::unavailable(stopping.to_string()))
    }

    async fn done(&self, command: ClientCommand) -> Reply<Done> {
        let done = self.run(command).await?.map(|()| Response::new(Done {}));
        done.map_err(tonic::Status::failed_precondition)
    }

    fn query(&self, request: &Request<StatusRequest>) -> StatusQuery {
        let asks_for_volumes = request.get_ref().volumes;
        StatusQuery {
            snapshots: self.snapshots.clone(),
            volumes: asks_for_volumes.then(|| self.volumes.clone()),
        }
    }

    async fn by_hand(&self, action: ManualAction, request: Request<DriverRequest>) -> Reply<Done> {
        let driver = request.into_inner().driver;
        self.done(ClientCommand::Manual { action, driver }).await
    }
}

#[async_trait]
impl Control for Session {
    type WatchStatusStream = StatusStream;

    async fn get_status(&self, request: Request<StatusRequest>) -> Reply<Status> {
        self.busy.touch();
        let mut query = self.query(&request);
        query.status().await.map(Response::new)
    }

    async fn watch_status(&self, request: Request<StatusRequest>) -> Reply<StatusStream> {
        self.busy.touch();
        let (query, busy) = (self.query(&request), self.busy.clone());
        let (sender, statuses) = mpsc::channel(1);
        let follower = Task::spawn(query.follow(sender, busy));
        Ok(Response::new(StatusStream {
            statuses,
            _follower: follower,
        }))
    }

    async fn reannounce(&self, request: Request<DriverRequest>) -> Reply<Done> {
        let DriverRequest { registrations, .. } = *request.get_ref();
        let action = match request.get_ref().lost_in_cluster {
            true => ManualAction::Repair { registrations },
            false => ManualAction::Reannounce,
        };
        self.by_hand(action, request).await
    }

    async fn withdraw(&self, request: Request<DriverRequest>) -> Reply<Done> {
        let force = request.get_ref().force;
        self.by_hand(ManualAction::Withdraw { force }, request)
            .await
    }

    async fn publish(&self, request: Request<DriverRequest>) -> Reply<Done> {
        self.by_hand(ManualAction::Publish, request).await
    }

    async fn report_cluster(&self, request: Request<ClusterReport>) -> Reply<Done> {
        let report = request.into_inner();
        self.done(ClientCommand::ReportCluster(report)).await
    }

    async fn reload(&self, _: Request<ReloadRequest>) -> Reply<Reloaded> {
        // Not in the message of an error: that is a header, and headers are short.
        let refusal = self
            .run(ClientCommand::Reload)
            .await?
            .err()
            .unwrap_or_default();
        Ok(Response::new(Reloaded { refusal }))
    }
}

/// The status that a client asks for.
struct StatusQuery {
    snapshots: Snapshots,
    /// If the client asks for the volumes too.
    volumes: Option<VolumeReader>,
}

impl StatusQuery {
    async fn status(&mut self) -> Result<Status, tonic::Status> {
        let mut status = match self.snapshots.now() {
            Ok(now) => now.status(),
            Err(Unavailable::Stopping(error)) => {
                return Err(tonic::Status::unavailable(error.to_string()));
            }
            Err(error) => return Err(tonic::Status::deadline_exceeded(error.to_string())),
        };
        if let Some(reader) = &self.volumes {
            volumes::show(&mut status, &*reader.recent().await);
        }
        Ok(status)
    }

    /// Sends the status at each change, until the client leaves or the daemon stops.
    async fn follow(mut self, sender: mpsc::Sender<StatusResult>, busy: Activity) {
        let mut last = None;
        let mut look = LOOK;
        loop {
            let now = self.status().await;
            let is_over = now.is_err();
            // A look at the volumes that found no other is no news.
            let shown = now.as_ref().ok().filter(|_| self.volumes.is_some());
            let is_news = shown.is_none() || shown != last.as_ref();
            if is_news {
                last = shown.cloned();
                if sender.send(now).await.is_err() {
                    return;
                }
            }
            if is_over {
                return;
            }
            match self.next_change(look, &busy).await {
                Ok(Change::Reported) => look = LOOK_AFTER_CHANGE,
                Ok(Change::NotReported) => look = LOOK,
                Err(_) => return,
            }
            tokio::time::sleep(PACE).await;
        }
    }

    /// Waits for the next change, and for the next look at the volumes if the client asks for them. A
    /// client that watches sends nothing more, and is not idle.
    async fn next_change(&mut self, look: Duration, busy: &Activity) -> Result<Change, RecvError> {
        loop {
            busy.touch();
            let longest = match self.volumes {
                Some(_) => look,
                None => LIMITS.idle / 2,
            };
            match timeout(longest, self.snapshots.changed()).await {
                Ok(changed) => return changed.map(|()| Change::Reported),
                Err(_) if self.volumes.is_some() => return Ok(Change::NotReported),
                Err(_) => {}
            }
        }
    }
}

/// Why a watching client may get another status.
enum Change {
    Reported,
    /// The volumes may be others.
    NotReported,
}

/// The statuses for a watching client. The task that follows the changes ends with this value.
struct StatusStream {
    statuses: mpsc::Receiver<StatusResult>,
    _follower: Task,
}

impl Stream for StatusStream {
    type Item = Result<Status, tonic::Status>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.statuses.poll_recv(cx)
    }
}

#[cfg(test)]
mod fuzz;
