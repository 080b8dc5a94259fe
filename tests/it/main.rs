//! The daemon from outside: the real binary on real sockets, one module for each subject.
//!
//! `LONG=1` makes the loop of random kills longer, and adds the thousand drivers to the ignored test of
//! scale.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod discovery;
mod disk;
mod http_client;
mod lifecycle;
mod ndr;
mod operator;
mod registration;
mod security;
mod tmux;
mod yaml;

bed::kubelet_process!();
bed::registrar_program!();
