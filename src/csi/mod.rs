//! The driver's side: who the driver is, and whether it is still there.

pub(crate) mod csi_socket;
pub(crate) mod discover;
pub(crate) mod error;
#[cfg(test)]
mod fuzz;
pub(crate) mod inspection;
pub(crate) mod limiter;
pub(crate) mod monitor;
pub(crate) mod query;
pub(crate) mod rules;
pub(crate) mod trust;
