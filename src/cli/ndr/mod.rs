//! node-driver-registrar: its flags on our command line, and its units and
//! manifests turned into a configuration.

pub(in crate::cli) mod flags;
pub(in crate::cli) mod import;
mod imported;
mod manifest;
pub(in crate::cli) mod normalize;
mod shell;
mod unit_file;
mod yaml;
