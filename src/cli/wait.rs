//! `wait`: for scripts and units that depend on a driver.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::args::{Args, WaitOptions, WaitState};
use super::client::connect;
use super::exit::Exit;
use crate::api::control::ClientError;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};

/// The pause before the next try to reach a daemon that does not run yet.
const RETRY: Duration = Duration::from_millis(100);

pub(crate) async fn wait(args: &Args, options: &WaitOptions) -> Result<(), Exit> {
    let mut missing = Vec::new();
    let waiting = async {
        // At boot the daemon may start after us, and it may restart at any time.
        while let Err(error) = follow(args, options, &mut missing).await {
            missing = vec![error.to_string()];
            sleep(RETRY).await;
        }
    };
    timeout(options.timeout, waiting).await.map_err(|_| {
        let time = humantime::format_duration(options.timeout);
        Exit::Failed(format!("timed out after {time}: {}", missing.join("; ")))
    })
}

/// Follows the daemon until nothing is missing, or the connection ends.
async fn follow(
    args: &Args,
    options: &WaitOptions,
    missing: &mut Vec<String>,
) -> Result<(), ClientError> {
    let mut client = connect(args).await?;
    let mut statuses = client.watch().await?;
    loop {
        *missing = shortfall(&statuses.next().await?, options);
        if missing.is_empty() {
            return Ok(());
        }
    }
}

/// The drivers that have not reached the state yet, each with its reason.
fn shortfall(status: &Status, options: &WaitOptions) -> Vec<String> {
    let reached = |driver: &Driver| match options.state {
        WaitState::Registered => driver.phase == Phase::Registered.as_str(),
        WaitState::Serving => driver.serving,
    };
    let lacks = |driver: &Driver| {
        (!reached(driver)).then(|| format!("{}: {}: {}", driver.id, driver.phase, driver.reason))
    };
    if options.drivers.is_empty() {
        if status.drivers.is_empty() {
            return vec!["the daemon has no drivers".to_owned()];
        }
        return status.drivers.iter().filter_map(lacks).collect();
    }
    let lacks_named = |wanted: &String| {
        let named = |driver: &&Driver| driver.id == *wanted || driver.name.as_ref() == Some(wanted);
        match status.drivers.iter().find(named) {
            Some(driver) => lacks(driver),
            None => Some(format!("the daemon has no driver \"{wanted}\"")),
        }
    };
    options.drivers.iter().filter_map(lacks_named).collect()
}
