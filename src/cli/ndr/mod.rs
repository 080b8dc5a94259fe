//! node-driver-registrar: its flags on our command line, and the configuration that is equivalent to them.

pub(in crate::cli) mod flags;
pub(in crate::cli) mod import;
pub(in crate::cli) mod normalize;
