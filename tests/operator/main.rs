//! What an operator sees: the real binary on real sockets, one module for each way to look at it.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod browser;
mod doctor;
mod fleet;
mod flood;
mod http;
mod inspect;
mod metrics;
mod request;
mod scene;
mod status;
mod taken_away;
mod terminal;

bed::kubelet_process!();
