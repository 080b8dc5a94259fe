//! The client of the daemon, and the commands that only pass a request on: `reload`, `reannounce`,
//! `withdraw` and `publish`.

use std::path::PathBuf;

use super::args::Args;
use super::exit::Exit;
use super::render::print;
use crate::api::command::ManualAction;
use crate::api::control::{Client, ClientError};
use crate::disk::runtime_dir::{control_socket, locate};
use crate::systemd::log::stderr_is_the_journal;

/// The control socket of the daemon that a command line means.
pub(super) fn socket(args: &Args) -> PathBuf {
    control_socket(&locate(args.runtime_dir.as_deref()))
}

pub(super) async fn connect(args: &Args) -> Result<Client, ClientError> {
    Client::connect(&socket(args)).await
}

/// Has the daemon apply a changed configuration.
pub(super) async fn reload(args: &Args) -> Result<(), Exit> {
    let reloaded = connect(args).await?.reload().await;
    reloaded.map_err(|error| match error {
        // The daemon has logged the reasons there.
        ClientError::Refused(_) if stderr_is_the_journal() => Exit::Config(
            "the daemon refused the changed configuration and keeps the old configuration"
                .to_owned(),
        ),
        ClientError::Refused(why) => {
            Exit::Config(format!("{why}\nthe daemon keeps the old configuration"))
        }
        other => Exit::failed(other),
    })
}

/// Has the daemon withdraw, publish or announce a driver, for an operator.
pub(super) async fn act(args: &Args, action: ManualAction, driver: &str) -> Result<(), Exit> {
    connect(args).await?.by_hand(action, driver).await?;
    let done = match action {
        ManualAction::Reannounce | ManualAction::Repair { .. } => "announced again",
        ManualAction::Withdraw { .. } => "withdrawn until you publish it",
        ManualAction::Publish => "published",
    };
    print(&format!("{driver}: {done}"))
}
