//! What systemd is told: readiness, a line of truth, life signs.
//!
//! It is never waited for. A systemd that hangs no longer empties its socket, and a send that
//! blocks would take the kubelet's answers down with it.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::os::text::printable;

/// The channel to systemd. Without one, everything here does nothing.
pub(crate) struct Notifier {
    status: String,
    watchdog: Option<Duration>,
    owed: Owed,
}

/// What systemd has not heard yet, because it had no room for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Owed {
    Nothing,
    Status,
    /// That we are ready, and the status with it.
    Ready,
}

impl Notifier {
    pub(crate) fn new() -> Notifier {
        Notifier {
            status: String::new(),
            watchdog: sd_notify::watchdog_enabled(),
            owed: Owed::Nothing,
        }
    }

    /// How often the main loop has to show that it is alive.
    pub(crate) fn life_sign_interval(&self) -> Option<Duration> {
        self.watchdog.map(|timeout| timeout / 2)
    }

    pub(crate) fn ready(&mut self, status: &str) {
        self.status = printable(status);
        self.owed = Owed::Ready;
        self.retry();
    }

    /// There is something that systemd has not heard yet.
    pub(crate) fn owes(&self) -> bool {
        self.owed != Owed::Nothing
    }

    /// Says what systemd has not heard yet.
    pub(crate) fn retry(&mut self) {
        let status = NotifyState::Status(&self.status);
        let told = match self.owed {
            Owed::Nothing => return,
            Owed::Status => send(&[status]),
            Owed::Ready => send(&[NotifyState::Ready, status]),
        };
        if told != Told::NoRoom {
            self.owed = Owed::Nothing;
        }
    }

    /// From 253 on systemd wants to know since when; older ones pass over that line.
    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(since) => drop(send(&[NotifyState::Reloading, since])),
            Err(error) => tracing::debug!(%error, "the clock cannot be read"),
        }
    }

    /// Says how things are, when that has changed: on one line, whatever a driver has said.
    pub(crate) fn status(&mut self, status: &str) {
        let status = printable(status);
        if self.status != status {
            self.status = status;
            self.owed = self.owed.max(Owed::Status);
            self.retry();
        }
    }

    pub(crate) fn stopping(&self, status: &str) {
        send(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// The main loop goes round.
    pub(crate) fn alive(&self) {
        if self.watchdog.is_some() {
            send(&[NotifyState::Watchdog]);
        }
    }

    /// Readiness is held back on purpose: do not give up on us for this long.
    pub(crate) fn more_time(&self, time: Duration) {
        send(&[NotifyState::ExtendTimeoutUsec(
            u32::try_from(time.as_micros()).unwrap_or(u32::MAX),
        )]);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Told {
    Done,
    /// systemd has not read what it was told before.
    NoRoom,
}

fn send(states: &[NotifyState<'_>]) -> Told {
    match deliver(states) {
        Ok(()) => Told::Done,
        Err(error) => {
            tracing::debug!(%error, "systemd could not be told");
            if error.kind() == io::ErrorKind::WouldBlock {
                Told::NoRoom
            } else {
                Told::Done
            }
        }
    }
}

/// As sd_notify::notify, which would wait for room.
fn deliver(states: &[NotifyState<'_>]) -> io::Result<()> {
    let Some(named) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let mut message = String::new();
    for state in states {
        writeln!(message, "{state}").map_err(io::Error::other)?;
    }
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.connect_addr(&address(&named)?)?;
    socket.send(message.as_bytes()).map(drop)
}

/// Where `NOTIFY_SOCKET` points: a path, or a name in the abstract namespace after an `@`.
fn address(named: &OsStr) -> io::Result<SocketAddr> {
    match named.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(named),
    }
}
