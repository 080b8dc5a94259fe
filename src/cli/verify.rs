//! `verify`: becomes the program of that name, which compares the drivers with the cluster.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::exit::Exit;
use crate::cluster::program::{self, NoReport};

/// Returns only if the program cannot be run. It gets the arguments of this command line.
pub(super) fn become_verify(arguments: &[OsString]) -> Exit {
    let why = match program::path() {
        Ok(program) => {
            let arguments = arguments.iter().skip(1);
            let error = Command::new(&program).args(arguments).exec();
            NoReport::not_started(program, error)
        }
        Err(error) => error,
    };
    Exit::Unavailable(format!("the cluster could not be asked: {why}"))
}
