//! Peers, users and files that mean harm.

mod callers;
mod drivers;
mod exposure;
mod flood;
mod modes;
mod mounts;
mod nobody;
mod notify_socket;
mod peers;
mod planted;
mod storm;
mod words;
