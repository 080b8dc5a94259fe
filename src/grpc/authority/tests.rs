//! Tests of the adapter, with a client and a server written from the RFC of HTTP/2.

mod answers;
mod client;
mod follows;
mod fuzz;
mod reads;
mod refuses;
mod server;
