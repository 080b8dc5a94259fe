//! The commands that a client of the daemon may give, and the way to the supervisor.

use std::sync::Arc;

use thiserror::Error;
use tokio::sync::oneshot;

use crate::grpc::proto::control::ClusterReport;

/// A command of a client, carried out by the supervisor.
#[derive(Debug)]
pub(crate) enum ClientCommand {
    Manual {
        action: ManualAction,
        /// The driver's id or name.
        driver: String,
    },
    Reload,
    /// What the program verify found in the cluster.
    ReportCluster(ClusterReport),
}

/// An action on one driver that an operator, or the program verify, asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ManualAction {
    Reannounce,
    /// Announces a driver that the cluster has lost.
    Repair {
        /// The registration that the cluster has lost.
        registrations: u64,
    },
    Withdraw {
        /// Although volumes are in use.
        force: bool,
    },
    Publish,
}

/// The outcome of a command; a refusal says why.
pub(crate) type CommandResult = Result<(), String>;

/// A message from the control socket or from the HTTP server to the supervisor.
pub(crate) enum Request {
    Command(ClientCommand, oneshot::Sender<CommandResult>),
    /// Why HTTP is not served at the configured address; none when it is served.
    HttpTrouble(Option<String>),
}

/// The supervisor stops, and carries out no more commands.
#[derive(Debug, Error)]
#[error("the daemon is stopping")]
pub(crate) struct Stopping;

/// Sends requests to the supervisor.
#[derive(Clone)]
pub(crate) struct Commands(Arc<dyn Fn(Request) + Send + Sync>);

impl Commands {
    pub(crate) fn new(send: impl Fn(Request) + Send + Sync + 'static) -> Commands {
        Commands(Arc::new(send))
    }

    /// Returns when the command is carried out or refused, and every reader of the snapshot sees
    /// the effect.
    pub(crate) async fn run(&self, command: ClientCommand) -> Result<CommandResult, Stopping> {
        let (reply, outcome) = oneshot::channel();
        (self.0)(Request::Command(command, reply));
        outcome.await.map_err(|_| Stopping)
    }

    pub(crate) fn http_trouble(&self, trouble: Option<String>) {
        (self.0)(Request::HttpTrouble(trouble));
    }
}
