//! The driver's side: who the driver is, and whether it is still there.

pub mod answer;
pub(crate) mod contact;
pub(crate) mod csi_socket;
pub(crate) mod exposure;
#[cfg(test)]
mod fuzz;
pub(crate) mod inquiry;
pub(crate) mod inspection;
pub(crate) mod rules;
pub(crate) mod trouble;
pub(crate) mod turns;
