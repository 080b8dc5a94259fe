//! Those who mean harm, or have lost their way: slow and silent peers on every socket, other users
//! of the machine, files planted where ours go, and words that garble what they are shown on.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod callers;
mod drivers;
mod modes;
mod mounts;
mod nobody;
mod planted;
mod scene;
mod systemd;
mod words;

bed::kubelet_process!();
