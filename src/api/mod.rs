//! What others read and ask of the daemon: the control socket, HTTP, metrics and the status they show.

mod age;
pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod control;
pub(crate) mod http;
pub(crate) mod metrics;
pub(crate) mod snapshot;
pub(crate) mod status;
pub(crate) mod volumes;

pub(crate) use self::age::age;
