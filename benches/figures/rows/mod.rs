//! How each row is measured: one file for each kind of work.

pub(crate) mod appearing;
pub(crate) mod asking;
pub(crate) mod binary;
pub(crate) mod growth;
pub(crate) mod idling;
pub(crate) mod mending;
pub(crate) mod restarting;
pub(crate) mod starting;
pub(crate) mod storming;
pub(crate) mod volumes;
