//! The runtime directory as we look after it: whether it is still ours, taken again when somebody has
//! deleted it, and left when another instance has taken it.

use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::{DriverId, Supervisor};
use crate::api::control::{Client, ClientError};
use crate::disk::runtime_dir::{self, RuntimeError};
use crate::disk::socket::{ListenerProbe, listener, probe};
use crate::driver::Record;

/// How long another instance, which has just taken the lock, may take to listen.
const HANDOVER: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Supervisor {
    /// Makes sure that the runtime directory is there and the lock in it is ours. Where it cannot be
    /// made it is tried again with each slow look.
    pub(super) fn hold_runtime(&mut self) {
        let Some(runtime) = &mut self.runtime else {
            return;
        };
        if runtime.is_held() {
            if self.runtime_trouble.take().is_some() {
                let path = runtime.path().display();
                tracing::info!(%path, "the runtime directory is there again");
                self.changed = true;
            }
            return;
        }
        match runtime.take_again() {
            Ok(()) => {
                let path = runtime.path().display();
                tracing::warn!(%path, "the runtime directory or its lock was deleted, and is taken again");
                self.changed |= self.runtime_trouble.take().is_some();
                self.unsaved = true;
                // The control socket has a place again.
                self.looks.send_replace(());
            }
            Err(error @ RuntimeError::Held { .. }) => self.evicted = Some(error),
            Err(error) => {
                let trouble = format!(
                    "{error}; commands do not reach the daemon, and a restart may cost a registration"
                );
                if self.runtime_trouble.as_ref() != Some(&trouble) {
                    tracing::error!("{trouble}");
                    self.runtime_trouble = Some(trouble);
                    self.changed = true;
                }
            }
        }
    }

    /// Another instance has our runtime directory and looks after the drivers. What we know of them
    /// is handed over, so that the kubelet notices nothing.
    pub(super) async fn make_way(mut self, taken: RuntimeError) -> RuntimeError {
        let word = "stopping; another instance looks after the drivers";
        self.notifier.stopping(word);
        tracing::info!("{word}");
        let successor = match &self.runtime {
            Some(runtime) => {
                let path = runtime.path().to_owned();
                self.hear_kubelets(async move { successor(&path).await })
                    .await
            }
            None => None,
        };
        self.hear_last_calls().await;
        let records: Vec<(DriverId, Record)> = self
            .entries
            .iter_mut()
            .map(|(id, entry)| {
                // The other one listens at the same places, once nobody else does.
                entry.service = None;
                (id.clone(), entry.driver.record())
            })
            .collect();
        if let Some(mut successor) = successor {
            for (id, record) in records {
                if let Err(error) = successor.take_up(&id, &record).await {
                    tracing::warn!(%error, driver = %id, "{id}: the other instance does not take it up");
                }
            }
        }
        taken
    }

    /// Goes on with what another instance knew of a driver, which has left it to us.
    pub(super) fn take_up(&mut self, driver: &str, record: &Record) -> Result<(), String> {
        let id = DriverId::from(driver);
        let Some(entry) = self.entries.get(&id) else {
            return Err(format!("there is no driver \"{driver}\""));
        };
        if entry.driver.record().is_held() {
            return Ok(());
        }
        tracing::info!(driver, "{driver}: taken up from another instance");
        self.forget(&id);
        self.add(driver, Some(record));
        self.unsaved = true;
        Ok(())
    }
}

/// The instance that holds the directory, as soon as it listens there.
async fn successor(runtime: &Path) -> Option<Client> {
    let socket = runtime_dir::control_socket(runtime);
    let coming = async {
        // Our own socket may still be there.
        while !is_served_by_the_holder(runtime, &socket) {
            sleep(LOOK_AGAIN).await;
        }
        Client::connect(&socket).await
    };
    let why = match timeout(HANDOVER, coming).await {
        Ok(Ok(client)) => return Some(client),
        Ok(Err(error)) => error,
        Err(_) => ClientError::Silent(socket),
    };
    tracing::warn!(error = %why, "the other instance is not told what we know of the drivers");
    None
}

fn is_served_by_the_holder(runtime: &Path, socket: &Path) -> bool {
    let holder = runtime_dir::last_holder(runtime).filter(|pid| *pid != std::process::id());
    match probe(socket) {
        ListenerProbe::Alive(Some(stream)) => holder.is_some() && listener(&stream) == holder,
        _ => false,
    }
}
