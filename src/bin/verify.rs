//! Compares the drivers that the registrar has registered with what the cluster has of them.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_storage_driver_registrar::cli::verify_main(std::env::args_os())
}
