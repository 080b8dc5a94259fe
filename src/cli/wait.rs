//! `wait`: for rollout tools, and for scripts and units that depend on a driver.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::args::{Args, WaitOptions};
use super::client::connect;
use super::exit::Exit;
use super::gate::Gate;
use crate::api::control::ClientError;
use crate::grpc::proto::control::Status;
use crate::os::text::printable;

/// The pause before the next try to reach a daemon that does not run yet.
const RETRY: Duration = Duration::from_millis(100);
/// How often `--strict` reads the configuration again: the daemon reports no change of a file.
const REREAD: Duration = Duration::from_secs(1);

pub(crate) async fn wait(args: &Args, options: &WaitOptions) -> Result<(), Exit> {
    let gate = Gate {
        state: options.state,
        drivers: &options.drivers,
        strict: options.strict,
    };
    let mut missing = vec!["the daemon has not answered yet".to_owned()];
    let waiting = async {
        // At boot the daemon may start after us, and it may restart at any time.
        while let Err(error) = follow(args, gate, &mut missing).await {
            missing = vec![error.to_string()];
            sleep(RETRY).await;
        }
    };
    timeout(options.timeout, waiting).await.map_err(|_| {
        missing.extend(gate.invalid_configuration(args));
        let time = humantime::format_duration(options.timeout);
        Exit::Failed(format!("timed out after {time}: {}", listed(&missing)))
    })
}

/// Follows the daemon until nothing is missing, or the connection ends.
async fn follow(args: &Args, gate: Gate<'_>, missing: &mut Vec<String>) -> Result<(), ClientError> {
    let mut client = connect(args).await?;
    let mut statuses = client.watch().await?;
    let mut status = statuses.next().await?;
    loop {
        let shortfalls = gate.shortfalls(&status);
        let is_open = shortfalls.is_empty();
        *missing = with_notes(shortfalls, &status);
        if is_open && gate.invalid_configuration(args).is_none() {
            return Ok(());
        }
        let next = statuses.next();
        if is_open {
            // Only the configuration is missing.
            if let Ok(next) = timeout(REREAD, next).await {
                status = next?;
            }
        } else {
            status = next.await?;
        }
    }
}

/// The shortfalls, and the notes that are not among them: a note often says why a driver is not ready.
fn with_notes(mut shortfalls: Vec<String>, status: &Status) -> Vec<String> {
    let others = status
        .notes
        .iter()
        .filter(|note| !shortfalls.contains(note));
    let others: Vec<String> = others.map(|note| format!("note: {note}")).collect();
    shortfalls.extend(others);
    shortfalls
}

/// One text on the line of the message, several on a line each.
fn listed(texts: &[String]) -> String {
    let printable = |text: &String| -> String {
        let lines: Vec<String> = text.lines().map(printable).collect();
        lines.join("\n    ")
    };
    match texts {
        [text] => printable(text),
        texts => texts
            .iter()
            .map(|text| format!("\n  {}", printable(text)))
            .collect(),
    }
}
