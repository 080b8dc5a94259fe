//! Why systemd ends us: a stop, a restart, a shutdown, or no job at all.

use std::time::Duration;

use tokio::time::timeout;

use super::bus::{Bus, BusError};

/// A query takes 10 to 30 ms; a systemd that does not answer may not keep us from stopping.
const PATIENCE: Duration = Duration::from_secs(2);

/// What systemd is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Our unit is being stopped, and the machine runs on.
    Stop,
    /// Anything else: a restart, a shutdown, a signal with no job behind it.
    Other,
}

/// Asks systemd for the job of the unit that this process belongs to, whatever its name. None when
/// it cannot be asked.
pub(crate) async fn current() -> Option<Job> {
    match timeout(PATIENCE, ask()).await {
        Ok(Ok(job)) => Some(job),
        Ok(Err(error)) => {
            tracing::warn!(%error, "systemd cannot be asked why it ends us");
            None
        }
        Err(_) => {
            tracing::warn!("systemd does not say why it ends us");
            None
        }
    }
}

async fn ask() -> Result<Job, BusError> {
    let mut bus = Bus::connect().await?;
    let unit = bus.unit_of(std::process::id()).await?;
    let (number, job) = bus.job(&unit).await?;
    if number == 0 {
        return Ok(Job::Other);
    }
    let kind = bus
        .text(&job, "org.freedesktop.systemd1.Job", "JobType")
        .await?;
    let manager = "/org/freedesktop/systemd1";
    let state = bus
        .text(manager, "org.freedesktop.systemd1.Manager", "SystemState")
        .await?;
    Ok(if kind == "stop" && state != "stopping" {
        Job::Stop
    } else {
        Job::Other
    })
}
