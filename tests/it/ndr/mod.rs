//! node-driver-registrar: its command lines, its containers, and the migration from it.

pub(crate) mod command_lines;
mod container;
mod import;
mod migration;
mod shared_directories;
pub(crate) mod unit;
