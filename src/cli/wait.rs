//! `wait`: for rollout tools, and for scripts and units that depend on a driver.

use std::time::Duration;

use tokio::time::timeout;

use super::args::{Args, WaitOptions};
use super::exit::Exit;
use super::follower::Follower;
use super::gate::Gate;
use crate::grpc::proto::control::{Status, StatusRequest};
use crate::os::text::printable;

/// How often `--strict` reads the configuration again: the daemon reports no change of a file.
const REREAD: Duration = Duration::from_secs(1);
/// How long the message of a timeout waits for a last look at the configuration.
const PATIENCE: Duration = Duration::from_secs(2);

const UNREAD: &str = "the configuration on disk has not been read yet: a file system on the path of its files, of registry_dir or of kubelet.plugins_registry does not answer";

/// Why the wait goes on, as of the last look.
struct Missing {
    /// The daemon's status, or why there is none. Its words are put together when they are shown, because they
    /// have ages.
    of_daemon: Result<Status, String>,
    /// The daemon lacks nothing.
    is_open: bool,
    of_configuration: Option<String>,
    /// When the daemon read its configuration, in seconds since 1970. Until the daemon answers, no file is
    /// later.
    accepted: f64,
}

pub(crate) async fn wait(args: &Args, options: &WaitOptions) -> Result<(), Exit> {
    let gate = Gate {
        state: options.state,
        drivers: &options.drivers,
        strict: options.strict,
    };
    let mut missing = Missing {
        of_daemon: Err("the daemon has not answered yet".to_owned()),
        is_open: false,
        of_configuration: None,
        accepted: f64::INFINITY,
    };
    let waiting = follow(args, gate, &mut missing);
    if timeout(options.timeout, waiting).await.is_ok() {
        return Ok(());
    }
    let look = gate.other_configuration(args, missing.accepted);
    let of_configuration = match timeout(PATIENCE, look).await {
        Ok(now) => now,
        Err(_) => missing.of_configuration.or_else(|| Some(UNREAD.to_owned())),
    };
    if missing.is_open && of_configuration.is_none() {
        return Ok(());
    }
    let time = humantime::format_duration(options.timeout);
    let of_daemon = match missing.of_daemon {
        Ok(status) => with_notes(gate.shortfalls(&status), &status),
        Err(error) => vec![error],
    };
    let words: Vec<String> = of_daemon.into_iter().chain(of_configuration).collect();
    let words = listed(&words);
    Err(Exit::Failed(format!("timed out after {time}:{words}")))
}

/// Follows the daemon until nothing is missing. At boot the daemon may start after us, and it may
/// restart at any time.
async fn follow(args: &Args, gate: Gate<'_>, missing: &mut Missing) {
    let mut follower = Follower::start(args, StatusRequest { volumes: false });
    let mut news = follower.next().await;
    loop {
        missing.is_open = false;
        match &news {
            Ok(status) => {
                missing.is_open = gate.shortfalls(status).is_empty();
                missing.accepted = status.config_accepted;
                missing.of_daemon = Ok(status.clone());
            }
            Err(error) => missing.of_daemon = Err(error.to_string()),
        }
        if missing.is_open {
            missing.of_configuration = gate.other_configuration(args, missing.accepted).await;
            if missing.of_configuration.is_none() {
                return;
            }
        }
        let next = follower.next();
        if missing.is_open {
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
