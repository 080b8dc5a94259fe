//! node-driver-registrar: its flags on our command line, and its units turned into a configuration.

pub(in crate::cli) mod flags;
pub(in crate::cli) mod import;
pub(in crate::cli) mod normalize;
mod unit_file;
