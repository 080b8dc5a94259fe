//! Tests of the adapter, with a client and a server end that know HTTP/2 only by its RFC.

mod answers;
mod client;
mod follows;
mod fuzz;
mod reads;
mod refuses;
mod server;
