//! Any number of drivers, found by themselves, and the move from node-driver-registrar.
//!
//! The real binary on real sockets. `LONG=1` adds the thousand drivers to what is ignored by default.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod command_lines;
mod container;
mod departures;
mod discovery;
mod examples;
mod exposure;
mod healthz;
mod import;
mod kubelet_root;
mod moved;
mod moving;
mod neighbours;
mod scale;
mod scene;
mod unit;

bed::kubelet_process!();
