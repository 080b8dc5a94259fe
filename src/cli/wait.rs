//! `wait`: for rollout tools, and for scripts and units that depend on a driver.

use std::time::Duration;

use tokio::time::timeout;

use super::args::{Args, WaitOptions};
use super::exit::Exit;
use super::follower::Follower;
use super::gate::Gate;
use crate::grpc::proto::control::Status;
use crate::os::text::printable;

/// How often `--strict` reads the configuration again: the daemon reports no change of a file.
const REREAD: Duration = Duration::from_secs(1);
/// How long the message of a timeout waits for a last look at the configuration.
const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) async fn wait(args: &Args, options: &WaitOptions) -> Result<(), Exit> {
    let gate = Gate {
        state: options.state,
        drivers: &options.drivers,
        strict: options.strict,
    };
    let mut missing = vec!["the daemon has not answered yet".to_owned()];
    let waiting = follow(args, gate, &mut missing);
    if timeout(options.timeout, waiting).await.is_ok() {
        return Ok(());
    }
    if let Ok(refused) = timeout(PATIENCE, gate.refused_configuration(args)).await {
        missing.extend(refused);
    }
    let time = humantime::format_duration(options.timeout);
    let missing = listed(&missing);
    Err(Exit::Failed(format!("timed out after {time}:{missing}")))
}

/// Follows the daemon until nothing is missing. At boot the daemon may start after us, and it may
/// restart at any time.
async fn follow(args: &Args, gate: Gate<'_>, missing: &mut Vec<String>) {
    let mut follower = Follower::start(args);
    let mut news = follower.next().await;
    loop {
        let mut is_open = false;
        match &news {
            Ok(status) => {
                let shortfalls = gate.shortfalls(status);
                is_open = shortfalls.is_empty();
                *missing = with_notes(shortfalls, status);
            }
            Err(error) => *missing = vec![error.to_string()],
        }
        if is_open && gate.refused_configuration(args).await.is_none() {
            return;
        }
        let next = follower.next();
        if is_open {
            // Only the configuration is missing.
            if let Ok(next) = timeout(REREAD, next).await {
                news = next;
            }
        } else {
            news = next.await;
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

/// A single text on the line of the message; of several texts, each on its own line.
fn listed(texts: &[String]) -> String {
    let printable = |text: &String| -> String {
        let lines: Vec<String> = text.lines().map(printable).collect();
        lines.join("\n    ")
    };
    match texts {
        [text] => format!(" {}", printable(text)),
        texts => texts
            .iter()
            .map(|text| format!("\n  {}", printable(text)))
            .collect(),
    }
}
