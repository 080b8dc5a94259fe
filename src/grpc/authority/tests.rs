//! Tests of the adapter, with a client and a server written from the RFCs of HTTP/2 and HPACK.

mod answers;
mod changes;
mod client;
mod fuzz;
mod hpack;
mod reads;
mod server;
