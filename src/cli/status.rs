//! `status`: the state of the drivers now.

use jiff::Timestamp;

use super::args::{Args, StatusOptions, WaitState};
use super::client::connect;
use super::exit::{Exit, print_error};
use super::gate::{Gate, other_version};
use super::render::{Screen, print, table};
use super::selection::{no_driver, select, unknown};
use crate::api::status;
use crate::grpc::proto::control::Status;

pub(crate) async fn status(args: &Args, options: &StatusOptions) -> Result<(), Exit> {
    let now = connect(args).await?.status_with_volumes().await?;
    let gate = Gate {
        state: WaitState::Ready,
        drivers: &options.drivers,
        strict: options.strict,
    };
    let is_short = !gate.shortfalls(&now).is_empty();
    let unknown = unknown(&now, &options.drivers).map(|driver| no_driver(&now, driver));
    // Neither the table nor the JSON shows these.
    let unseen: Vec<String> = unknown
        .chain(gate.other_version(&now))
        .chain(gate.other_configuration(args, now.config_accepted).await)
        .collect();
    if !options.strict
        && let Some(difference) = other_version(&now)
    {
        print_error(&format!("warning: {difference}"));
    }
    let shown = select(now, &options.drivers);
    if options.json || !shown.drivers.is_empty() || options.drivers.is_empty() {
        print(&text(&shown, options, &Screen::stdout())?)?;
    }
    for shortfall in &unseen {
        print_error(&format!("error: {shortfall}"));
    }
    if is_short || !unseen.is_empty() {
        return Err(Exit::No);
    }
    Ok(())
}

fn text(status: &Status, options: &StatusOptions, screen: &Screen) -> Result<String, Exit> {
    if options.json {
        return status::json(status).map_err(Exit::failed);
    }
    let now = Timestamp::now();
    let is_detailed = !options.drivers.is_empty();
    Ok(table(
        status,
        screen.width(),
        now,
        screen.paint,
        is_detailed,
    ))
}
