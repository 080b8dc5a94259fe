//! A free TCP port for another process.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the kernel's range for clients: a client that keeps connecting to a port of that range, while
/// no process listens, can end up connected with itself, and then no process can listen.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port on which no process listens. No other test of this process gets it.
///
/// The test connects to it and does not listen on it: a child that another thread forks at this moment
/// has a copy of every descriptor, and would keep the port in use.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(COUNT)) as u16;
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        let port = FIRST + (start + step) % COUNT;
        if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            return port;
        }
    }
}
