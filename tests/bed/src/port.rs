//! A TCP port for somebody else to listen on.

use std::net::{Ipv4Addr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to clients: one that connects again and again to a port of that
/// range, while nobody listens, ends up connected with itself, and nobody can listen then.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// A port on which nobody listens. No other test of this process gets it.
///
/// It is knocked at, and not listened on: a child that another thread forks at this moment has a
/// copy of every descriptor, and the port would be taken for as long as that.
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
