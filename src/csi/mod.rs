//! The driver's side: its name and node, and whether it still answers.

mod csi_socket;
pub(crate) mod error;
#[cfg(test)]
mod fuzz;
pub(crate) mod inspection;
pub(crate) mod limiter;
pub(crate) mod monitor;
pub(crate) mod query;
pub(crate) mod rules;
pub(crate) mod trust;
