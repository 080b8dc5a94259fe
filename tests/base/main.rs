//! The daemon from outside: the real binary on real sockets, one module for each promise.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod authority;
mod by_hand;
mod closing;
mod commands;
mod environment;
mod hostile;
mod logs;
mod nested;
mod one_directory;
mod order;
mod places;
mod racing;
mod reload;
mod repair;
mod rivals;
mod scene;
mod several;
mod slow;
mod stopping;
mod storm;
mod systemd;
mod wire;

bed::kubelet_process!();
