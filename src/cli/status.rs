//! `status`: how every driver stands, once or as it changes.

use std::io;
use std::time::Duration;

use jiff::Timestamp;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::args::{Args, StatusOptions};
use super::client::{connect, failed, in_runtime};
use super::exit::Exit;
use super::render::Screen;
use crate::api::{age, status};
use crate::cli::render::table;
use crate::grpc::proto::control::Status;

pub(crate) fn status(args: &Args, options: &StatusOptions) -> Result<(), Exit> {
    in_runtime(async {
        if options.watch {
            return watch(args, options.json).await;
        }
        let now = connect(args).await?.status().await.map_err(failed)?;
        let mut screen = Screen::stdout();
        let text = text(&now, options.json, &screen)?;
        is_gone(screen.print(&text))?;
        Exit::no_unless(status::is_well(&now))
    })
}

/// Follows the changes that the daemon tells of, until somebody has seen enough.
async fn watch(args: &Args, json: bool) -> Result<(), Exit> {
    let mut client = connect(args).await?;
    let mut statuses = client.watch().await.map_err(failed)?;
    let mut ends = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(interrupt), Ok(terminate)] = &mut ends else {
        return Err(Exit::Failed("cannot wait for signals".to_owned()));
    };
    let mut resized = signal(SignalKind::window_change()).map_err(failed)?;
    let mut screen = Screen::stdout();
    let mut shown: Option<Status> = None;
    loop {
        tokio::select! {
            next = statuses.next() => shown = Some(next.map_err(failed)?),
            () = end(interrupt, terminate) => return Ok(()),
            _ = resized.recv(), if screen.is_terminal() => {
                if is_gone(screen.was_resized())? {
                    return Ok(());
                }
            }
            // Only the ages are older: the daemon is not asked.
            () = sleep(pause(shown.as_ref())), if screen.is_terminal() && !json => {}
        }
        let Some(now) = &shown else { continue };
        let text = text(now, json, &screen)?;
        let put = if json {
            screen.print(&text)
        } else {
            screen.show(&text)
        };
        if is_gone(put)? {
            return Ok(());
        }
    }
}

async fn end(interrupt: &mut Signal, terminate: &mut Signal) {
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// How long the youngest age stays as it is shown.
fn pause(shown: Option<&Status>) -> Duration {
    let now = Timestamp::now();
    let young = shown.is_some_and(|status| {
        let mut ages = status.drivers.iter().map(|driver| age(&driver.since, now));
        ages.any(|age| age.ends_with('s'))
    });
    Duration::from_secs(if young { 1 } else { 60 })
}

fn text(status: &Status, json: bool, screen: &Screen) -> Result<String, Exit> {
    if json {
        return status::json(status).map_err(failed);
    }
    let now = Timestamp::now();
    Ok(table(status, screen.width(), now, screen.paint()))
}

/// Whoever read our output has left, as `head` does; there is nobody to complain to.
pub(super) fn is_gone(put: io::Result<()>) -> Result<bool, Exit> {
    match put {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(failed(error)),
    }
}
