//! Commands that ask the running daemon.

use std::future::Future;
use std::path::PathBuf;

use super::args::{Args, DriverArgument};
use super::exit::Exit;
use crate::api::command::ManualAction;
use crate::api::control::{Client, ClientError};
use crate::disk::runtime_dir::{control_socket, locate};

pub(crate) fn reannounce(args: &Args, argument: &DriverArgument) -> Result<(), Exit> {
    by_hand(args, ManualAction::Reannounce, argument)
}

pub(crate) fn withdraw(args: &Args, argument: &DriverArgument) -> Result<(), Exit> {
    by_hand(args, ManualAction::Withdraw, argument)
}

pub(crate) fn publish(args: &Args, argument: &DriverArgument) -> Result<(), Exit> {
    by_hand(args, ManualAction::Publish, argument)
}

fn by_hand(args: &Args, hand: ManualAction, argument: &DriverArgument) -> Result<(), Exit> {
    in_runtime(async {
        let mut client = connect(args).await?;
        client.by_hand(hand, &argument.driver).await.map_err(failed)
    })?;
    let done = match hand {
        ManualAction::Reannounce => "is announced again",
        ManualAction::Withdraw => "is withdrawn until it is published again",
        ManualAction::Publish => "is published",
    };
    super::print(&format!("{} {done}", argument.driver))
}

pub(crate) fn reload(args: &Args) -> Result<(), Exit> {
    in_runtime(async {
        connect(args)
            .await?
            .reload()
            .await
            .map_err(|error| match error {
                ClientError::Refused(why) => {
                    Exit::Config(format!("{why}\nthe old configuration stays"))
                }
                other => failed(other),
            })
    })
}

pub(super) async fn connect(args: &Args) -> Result<Client, ClientError> {
    let path: PathBuf = control_socket(&locate(args.runtime_dir.as_deref()));
    Client::connect(&path).await
}

pub(super) fn in_runtime(work: impl Future<Output = Result<(), Exit>>) -> Result<(), Exit> {
    let runner = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let done = runner.block_on(work);
    // A thread that waits for a file system is not waited for.
    runner.shutdown_background();
    done
}

pub(super) fn failed(error: impl std::fmt::Display) -> Exit {
    Exit::Failed(error.to_string())
}
