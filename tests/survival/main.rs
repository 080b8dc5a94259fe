//! A registration survives everything that is not a change of the driver.
//!
//! The real binary on real sockets, between a kubelet in a process of its own and a driver.
//! `LONG=1` makes the loop of random kills longer; `UPDATE_DOCS=1` writes the matrix' counts
//! into docs/survival.md.
#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod announcing;
mod back_off;
mod blind;
mod boot;
mod changes;
mod comings;
mod forbidden;
mod journal;
mod kills;
mod leftovers;
mod matrix;
mod owners;
mod refused;
mod runtime_dir;
mod scene;
mod stand_in;
mod state_file;
mod topology;
mod wrapped;

bed::kubelet_process!();
