//! The move from node-driver-registrar.

pub(crate) mod command_lines;
mod container;
mod import;
mod moving;
pub(crate) mod unit;
