//! Health, status and metrics over HTTP.

mod caller;
mod connection;
mod landing;
mod listener;
mod page;

use std::convert::Infallible;

use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;

use self::listener::Listener;
use self::page::Pages;
use crate::api::command::Commands;
use crate::api::metrics::Metrics;
use crate::api::snapshot::Snapshots;
use crate::config::Listen;
use crate::kubelet::volumes::VolumeReader;
use crate::os::task::Task;

/// Serves at the address that `wanted` has. Reports a failure, and retries at each of the supervisor's slow
/// looks. Drivers are registered without HTTP.
pub(crate) fn serve(
    wanted: watch::Receiver<Option<Listen>>,
    looks: watch::Receiver<()>,
    commands: Commands,
    snapshots: Snapshots,
    volumes: VolumeReader,
    metrics: Metrics,
) -> Task {
    let server = Server {
        wanted,
        looks,
        pages: Pages::new(snapshots, volumes, metrics),
        commands,
        trouble: None,
    };
    Task::spawn(async {
        let Err(RecvError { .. }) = server.run().await;
    })
}

struct Server {
    wanted: watch::Receiver<Option<Listen>>,
    looks: watch::Receiver<()>,
    pages: Pages,
    commands: Commands,
    /// The last report.
    trouble: Option<String>,
}

impl Server {
    /// Ends with the supervisor, which holds the other ends of the channels.
    async fn run(mut self) -> Result<Infallible, RecvError> {
        loop {
            let listen = self.wanted.borrow_and_update().clone();
            let Some(listen) = listen else {
                self.report(None);
                self.wanted.changed().await?;
                continue;
            };
            match Listener::open(&listen).await {
                Ok(listener) => {
                    tracing::info!(%listen, "http is served on {listen}");
                    self.report(None);
                    let pages = self.pages.clone();
                    tokio::select! {
                        never = connection::serve(&listener, &pages) => match never {},
                        moved = self.moved(&listen, &listener) => moved?,
                    }
                }
                Err(error) => {
                    self.report(Some(error.to_string()));
                    self.wait().await?;
                }
            }
        }
    }

    /// Returns when another address is wanted, or when the socket was deleted.
    async fn moved(&mut self, listen: &Listen, listener: &Listener) -> Result<(), RecvError> {
        loop {
            self.wait().await?;
            if self.wanted.borrow_and_update().as_ref() != Some(listen) || !listener.is_in_place() {
                return Ok(());
            }
        }
    }

    /// Waits for another address, or for the next slow look.
    async fn wait(&mut self) -> Result<(), RecvError> {
        tokio::select! {
            changed = self.wanted.changed() => changed,
            looked = self.looks.changed() => looked,
        }
    }

    /// Reports a failure once, while it stays the same.
    fn report(&mut self, trouble: Option<String>) {
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

#[cfg(test)]
mod fuzz;
