//! `reannounce`, `withdraw` and `publish`: what an operator does to a driver by hand.

use super::args::{Args, DriverArgument};
use super::client::{connect, in_runtime};
use super::exit::Exit;
use super::render::print;
use crate::api::command::ManualAction;

pub(crate) fn act(
    args: &Args,
    action: ManualAction,
    argument: &DriverArgument,
) -> Result<(), Exit> {
    in_runtime(async {
        let mut client = connect(args).await?;
        Ok(client.by_hand(action, &argument.driver).await?)
    })?;
    let done = match action {
        ManualAction::Reannounce => "announced again",
        ManualAction::Withdraw => "withdrawn until you publish it",
        ManualAction::Publish => "published",
    };
    print(&format!("{}: {done}", argument.driver))
}
