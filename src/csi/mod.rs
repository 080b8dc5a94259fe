//! The driver's side: its name and node, and whether it still answers.

mod csi_socket;
pub(crate) mod csidriver;
pub(crate) mod discover;
pub(crate) mod error;
pub(crate) mod inspection;
pub(crate) mod limiter;
pub(crate) mod monitor;
pub(crate) mod query;
pub(crate) mod rules;
pub(crate) mod trust;

#[cfg(test)]
mod fuzz;
