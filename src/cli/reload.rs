//! `reload`: has the daemon apply a changed configuration.

use super::args::Args;
use super::client::{connect, in_runtime};
use super::exit::Exit;
use crate::api::control::ClientError;

pub(crate) fn reload(args: &Args) -> Result<(), Exit> {
    in_runtime(async {
        let reloaded = connect(args).await?.reload().await;
        reloaded.map_err(|error| match error {
            ClientError::Refused(why) => {
                Exit::Config(format!("{why}\nthe daemon keeps the old configuration"))
            }
            other => Exit::failed(other),
        })
    })
}
