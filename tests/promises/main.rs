//! What docs/stability.md promises: the program still says all that is in the lists of the releases, and no more.
//!
//! The directory of a release has its list, and files that it wrote. `RECORD_RELEASE=1` writes these files for the
//! version of Cargo.toml.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod command_line;
mod configuration;
mod exchanges;
mod files;
mod http;
mod journal;
mod json;
mod list;
mod moment;
mod node;
mod notifications;
mod page;
mod recording;
mod release;
mod saved_state;
mod shape;

bed::kubelet_process!();
bed::registrar_program!();
