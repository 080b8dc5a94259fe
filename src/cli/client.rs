//! The client side of a command: a connection to the daemon, and the runtime that it needs.

use std::future::Future;

use super::args::Args;
use super::exit::Exit;
use crate::api::control::{Client, ClientError};
use crate::disk::runtime_dir::{control_socket, locate};

pub(super) async fn connect(args: &Args) -> Result<Client, ClientError> {
    Client::connect(&control_socket(&locate(args.runtime_dir.as_deref()))).await
}

pub(super) fn in_runtime(work: impl Future<Output = Result<(), Exit>>) -> Result<(), Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Exit::failed)?;
    let done = runtime.block_on(work);
    // A thread that hangs in a file system would hold up the end of the process.
    runtime.shutdown_background();
    done
}
