//! Health, status and metrics over HTTP: where it listens, and who answers.

mod caller;
mod connection;
#[cfg(test)]
mod fuzz;
mod landing;
mod listener;
mod page;

use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

use self::connection::Connections;
use self::listener::Listener;
use self::page::Pages;
use crate::api::command::Commands;
use crate::api::metrics::Metrics;
use crate::api::snapshot::Snapshots;
use crate::config::Listen;
use crate::os::task::Task;

/// Serves wherever `wanted` says. That it cannot is told, and tried again with each of the
/// supervisor's slow looks; drivers are registered without it.
pub(crate) fn serve(
    wanted: watch::Receiver<Option<Listen>>,
    looks: watch::Receiver<()>,
    commands: Commands,
    snapshots: Snapshots,
    metrics: Metrics,
) -> Task {
    let server = Server {
        wanted,
        looks,
        pages: Pages::new(snapshots, metrics),
        commands,
        trouble: None,
    };
    Task::spawn(server.run())
}

struct Server {
    wanted: watch::Receiver<Option<Listen>>,
    looks: watch::Receiver<()>,
    pages: Pages,
    commands: Commands,
    /// What was last told.
    trouble: Option<String>,
}

impl Server {
    async fn run(mut self) {
        loop {
            let listen = self.wanted.borrow_and_update().clone();
            let Some(listen) = listen else {
                self.tell(None);
                if self.wanted.changed().await.is_err() {
                    return;
                }
                continue;
            };
            let told = match Listener::open(&listen).await {
                Ok(listener) => {
                    tracing::info!(listen = %listener, "http is served on {listener}");
                    self.tell(None);
                    let mut connections = Connections::new(self.pages.clone());
                    tokio::select! {
                        never = connections.accept_from(&listener) => match never {},
                        told = self.told_otherwise(&listen, &listener) => told,
                    }
                }
                Err(error) => {
                    self.tell(Some(error.to_string()));
                    self.attend().await
                }
            };
            if told.is_err() {
                return;
            }
        }
    }

    /// Returns when it is to be served elsewhere, or when its place was taken away.
    async fn told_otherwise(
        &mut self,
        listen: &Listen,
        listener: &Listener,
    ) -> Result<(), RecvError> {
        loop {
            self.attend().await?;
            if self.wanted.borrow_and_update().as_ref() != Some(listen) || !listener.is_in_place() {
                return Ok(());
            }
        }
    }

    /// Until it may be wanted elsewhere, or everything is looked at.
    async fn attend(&mut self) -> Result<(), RecvError> {
        tokio::select! {
            changed = self.wanted.changed() => changed,
            looked = self.looks.changed() => looked,
        }
    }

    /// A failure that repeats itself is told once.
    fn tell(&mut self, trouble: Option<String>) {
        if self.trouble == trouble {
            return;
        }
        if let Some(why) = &trouble {
            tracing::error!("http is not served: {why}");
        }
        self.trouble.clone_from(&trouble);
        self.commands.http_trouble(trouble);
    }
}
