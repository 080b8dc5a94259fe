//! Registers CSI drivers that live on the host with the kubelet.

use std::process::ExitCode;

fn main() -> ExitCode {
    node_storage_driver_registrar::cli::main(std::env::args_os())
}
