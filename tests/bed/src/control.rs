//! The calls to the control socket that the program verify makes.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use tonic::Status;
use tonic::transport::Channel;

use crate::channel;
pub use crate::proto::control::ClusterFinding;
use crate::proto::control::control_client::ControlClient;
use crate::proto::control::{ClusterReport, DriverRequest};
use crate::worker::Worker;

/// Tells the daemon what was found in the cluster.
pub fn report_cluster(socket: &Path, drivers: Vec<ClusterFinding>) -> Result<(), Status> {
    report_cluster_late(socket, drivers, Duration::ZERO)
}

/// The same, so long after the cluster was asked.
pub fn report_cluster_late(
    socket: &Path,
    drivers: Vec<ClusterFinding>,
    age: Duration,
) -> Result<(), Status> {
    let age_ms = age.as_millis().try_into().unwrap();
    call(socket, async move |mut control| {
        let report = ClusterReport { drivers, age_ms };
        control.report_cluster(report).await?;
        Ok(())
    })
}

/// Asks the daemon to announce a driver of which the cluster has lost this registration.
pub fn repair(socket: &Path, driver: &str, registrations: u64) -> Result<(), Status> {
    let request = DriverRequest {
        driver: driver.to_owned(),
        force: false,
        lost_in_cluster: true,
        registrations,
    };
    call(socket, async move |mut control| {
        control.reannounce(request).await?;
        Ok(())
    })
}

/// One call on a new connection.
fn call<F>(
    socket: &Path,
    ask: impl FnOnce(ControlClient<Channel>) -> F + Send + 'static,
) -> Result<(), Status>
where
    F: Future<Output = Result<(), Status>>,
{
    on_channel(socket, move |channel| ask(ControlClient::new(channel)))
}

/// The same for a call of any kind.
pub(crate) fn on_channel<T, F>(
    socket: &Path,
    ask: impl FnOnce(Channel) -> F + Send + 'static,
) -> Result<T, Status>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>>,
{
    let (answer, answered) = mpsc::channel();
    let socket = PathBuf::from(socket);
    let _worker = Worker::spawn("control-call", move || async move {
        let outcome = match channel::connect(&socket).await {
            Ok(channel) => ask(channel).await,
            Err(error) => {
                let text = format!("connect {}: {error}", socket.display());
                Err(Status::unavailable(text))
            }
        };
        answer.send(outcome).unwrap();
    });
    answered.recv().unwrap()
}
