//! gRPC over a Unix socket, one connection at a time: hyper carries it, tonic's generated code
//! speaks it.
//!
//! tonic's own transport reconnects and buffers behind the caller's back. Here a connection is a
//! value with a visible end, because that end is what tells that a driver went away.

pub(crate) mod authority;
pub(crate) mod client;
pub(crate) mod frame;
pub(crate) mod idle_connection;
pub(crate) mod proto;
pub(crate) mod server;
