//! The state of the daemon as it was after the last turn of the main loop, for all readers.
//!
//! The supervisor changes the snapshot at the end of a turn, and only the drivers that changed. The
//! control socket and HTTP read it without a question to the supervisor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use thiserror::Error;
use tokio::sync::watch;
use tokio::sync::watch::error::RecvError;
use tokio::time::Instant;

use super::command::Stopping;
use crate::grpc::proto::control::{Driver, Kubelet, Status};

/// A main loop that is late by so much does not run any more. A turn takes milliseconds; the end of
/// the daemon, with no more turns, takes seconds.
const LATE: Duration = Duration::from_secs(10);

/// The daemon and its drivers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) daemon: Daemon,
    pub(crate) drivers: BTreeMap<Arc<str>, Arc<Driver>>,
    /// When the main loop wakes up at the latest; none before its first turn.
    pub(crate) next_turn: Option<Instant>,
}

/// The daemon itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Daemon {
    pub(crate) ready: bool,
    pub(crate) kubelet: Kubelet,
    pub(crate) notes: Vec<String>,
    pub(crate) problems: Vec<String>,
    pub(crate) config_refused: bool,
    pub(crate) config_accepted: Timestamp,
    pub(crate) directories_without_socket: u32,
    /// When verify last reported what it found in the cluster.
    pub(crate) cluster_checked: Option<Timestamp>,
}

/// Why there is no snapshot to read.
#[derive(Debug, Error)]
pub(crate) enum Unavailable {
    #[error(transparent)]
    Stopping(#[from] Stopping),
    #[error("the main loop of the daemon does not run: its last turn was due {} s ago", .0.as_secs())]
    Stalled(Duration),
}

impl Snapshot {
    /// The whole status, as clients get it.
    pub(crate) fn status(&self) -> Status {
        tracing::trace!("putting the status together");
        let Daemon {
            ready,
            kubelet,
            notes,
            problems,
            config_refused,
            config_accepted,
            directories_without_socket,
            cluster_checked,
        } = self.daemon.clone();
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ready,
            kubelet: Some(kubelet),
            drivers: self
                .drivers
                .values()
                .map(|driver| Driver::clone(driver))
                .collect(),
            notes,
            problems,
            config_refused,
            config_accepted: seconds(config_accepted),
            directories_without_socket,
            cluster_checked: cluster_checked.map(seconds),
        }
    }
}

/// Since 1970.
fn seconds(time: Timestamp) -> f64 {
    time.as_duration().as_secs_f64()
}

/// Reads the snapshot.
#[derive(Clone)]
pub(crate) struct Snapshots(watch::Receiver<Arc<Snapshot>>);

impl Snapshots {
    pub(crate) fn new(receiver: watch::Receiver<Arc<Snapshot>>) -> Snapshots {
        Snapshots(receiver)
    }

    /// The snapshot of the last turn, if the main loop still runs.
    pub(crate) fn now(&mut self) -> Result<Arc<Snapshot>, Unavailable> {
        if self.0.has_changed().is_err() {
            return Err(Stopping.into());
        }
        let now = self.0.borrow_and_update().clone();
        match now.next_turn.map(|due| due.elapsed()) {
            Some(late) if late > LATE => Err(Unavailable::Stalled(late)),
            Some(_) | None => Ok(now),
        }
    }

    /// Waits until the snapshot differs from the last that was read.
    pub(crate) async fn changed(&mut self) -> Result<(), RecvError> {
        self.0.changed().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_main_loop_that_misses_its_turn_is_seen_as_dead_and_one_that_is_idle_is_not() {
        let idle = Snapshot {
            next_turn: Some(Instant::now() + Duration::from_secs(30)),
            ..Snapshot::default()
        };
        let (board, receiver) = watch::channel(Arc::new(idle));
        let mut snapshots = Snapshots::new(receiver);
        tokio::time::advance(Duration::from_secs(30) + LATE).await;
        assert!(snapshots.now().is_ok());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(matches!(snapshots.now(), Err(Unavailable::Stalled(_))));
        drop(board);
        assert!(matches!(snapshots.now(), Err(Unavailable::Stopping(_))));
    }
}
