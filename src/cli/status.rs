//! `status`: the state of every driver, once or, with `--watch`, at each change.

use std::time::Duration;

use jiff::Timestamp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::args::{Args, StatusOptions, WaitState};
use super::client::connect;
use super::exit::{Exit, print_error};
use super::gate::Gate;
use super::render::{Screen, print, put, table};
use super::selection::{find, no_driver, select};
use crate::api::{age, status};
use crate::grpc::proto::control::Status;

pub(crate) async fn status(args: &Args, options: &StatusOptions) -> Result<(), Exit> {
    let now = connect(args).await?.status().await?;
    let gate = Gate {
        state: WaitState::Ready,
        drivers: &options.drivers,
        strict: options.strict,
    };
    let is_short = !gate.shortfalls(&now).is_empty();
    let unknown = options
        .drivers
        .iter()
        .filter(|driver| find(&now, driver).is_none())
        .map(|driver| no_driver(&now, driver));
    // Neither the table nor the JSON shows these.
    let unseen: Vec<String> = unknown
        .chain(gate.other_version(&now))
        .chain(gate.invalid_configuration(args))
        .collect();
    let shown = select(now, &options.drivers);
    if options.json || !shown.drivers.is_empty() || options.drivers.is_empty() {
        print(&text(&shown, options.json, &Screen::stdout())?)?;
    }
    for shortfall in &unseen {
        print_error(&format!("error: {shortfall}"));
    }
    if is_short || !unseen.is_empty() {
        return Err(Exit::No);
    }
    Ok(())
}

/// Shows each change that the daemon reports, until a signal comes or the reader has gone.
pub(crate) async fn watch(args: &Args, options: &StatusOptions) -> Result<(), Exit> {
    let json = options.json;
    let mut client = connect(args).await?;
    let mut statuses = client.watch().await?;
    let mut shown = statuses.next().await?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Exit::failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Exit::failed)?;
    let mut resized = signal(SignalKind::window_change()).map_err(Exit::failed)?;
    let mut screen = Screen::stdout();
    let draws = screen.is_terminal && !json;
    loop {
        let text = text(&shown, json, &screen)?;
        let read = if json {
            put(&format!("{text}\n"))
        } else {
            screen.show(&text)
        };
        if !read? {
            return Ok(());
        }
        tokio::select! {
            next = statuses.next() => shown = next?,
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = resized.recv(), if draws => screen.was_resized(),
            // Only the ages change: the daemon is not asked.
            () = sleep(pause(&shown)), if draws => {}
        }
    }
}

/// How long the youngest age stays as it is shown.
fn pause(shown: &Status) -> Duration {
    let now = Timestamp::now();
    let mut ages = shown.drivers.iter().map(|driver| age(&driver.since, now));
    let young = ages.any(|age| age.ends_with('s'));
    Duration::from_secs(if young { 1 } else { 60 })
}

fn text(status: &Status, json: bool, screen: &Screen) -> Result<String, Exit> {
    if json {
        return status::json(status).map_err(Exit::failed);
    }
    let now = Timestamp::now();
    Ok(table(status, screen.width(), now, screen.paint))
}
