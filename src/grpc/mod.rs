//! gRPC over a Unix socket, one connection at a time: hyper for HTTP/2, and tonic's generated code.
//!
//! tonic's own transport reconnects and buffers out of the caller's sight. Here a connection is a
//! value with a visible end, because that end shows that a driver has gone.

pub(crate) mod authority;
pub(crate) mod client;
pub(crate) mod connections;
pub(crate) mod frame;
pub(crate) mod idle_connection;
pub(crate) mod proto;
pub(crate) mod server;

/// The largest message that the registrar accepts from a driver, a kubelet or a client.
pub(crate) const MESSAGE_LIMIT: usize = 64 * 1024;
