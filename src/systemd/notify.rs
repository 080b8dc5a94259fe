//! Notifications to systemd: readiness, the status line and the watchdog's signs of life.
//!
//! No notification waits for room. A systemd that hangs no longer empties its socket, and a send that
//! blocks would delay our answers to the kubelet.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::os::text::printable;

/// The sender of notifications. Without `NOTIFY_SOCKET` it does nothing.
pub(crate) struct Notifier {
    status: String,
    watchdog: Option<Duration>,
    unsent: Unsent,
}

/// The notification that systemd had no room for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unsent {
    Nothing,
    Status,
    /// Readiness and the status line.
    Ready,
}

impl Notifier {
    pub(crate) fn new() -> Notifier {
        Notifier {
            status: String::new(),
            watchdog: sd_notify::watchdog_enabled(),
            unsent: Unsent::Nothing,
        }
    }

    /// How often the main loop has to call [`Notifier::alive`].
    pub(crate) fn life_sign_interval(&self) -> Option<Duration> {
        self.watchdog.map(|timeout| timeout / 2)
    }

    pub(crate) fn ready(&mut self, status: &str) {
        self.status = printable(status);
        self.unsent = Unsent::Ready;
        self.retry();
    }

    /// A notification has to be sent again.
    pub(crate) fn owes(&self) -> bool {
        self.unsent != Unsent::Nothing
    }

    /// Sends the notification that systemd had no room for.
    pub(crate) fn retry(&mut self) {
        let status = NotifyState::Status(&self.status);
        let had_room = match self.unsent {
            Unsent::Nothing => return,
            Unsent::Status => send(&[status]),
            Unsent::Ready => send(&[NotifyState::Ready, status]),
        };
        if had_room {
            self.unsent = Unsent::Nothing;
        }
    }

    /// systemd from version 253 on needs the time; older versions ignore it.
    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(time) => drop(send(&[NotifyState::Reloading, time])),
            Err(error) => tracing::debug!(%error, "cannot read the clock"),
        }
    }

    /// Sends a status line that has changed. It is a single line, whatever text a driver has sent.
    pub(crate) fn status(&mut self, status: &str) {
        let status = printable(status);
        if self.status != status {
            self.status = status;
            self.unsent = self.unsent.max(Unsent::Status);
            self.retry();
        }
    }

    pub(crate) fn stopping(&self, status: &str) {
        send(&[NotifyState::Stopping, NotifyState::Status(status)]);
    }

    /// The main loop runs.
    pub(crate) fn alive(&self) {
        if self.watchdog.is_some() {
            send(&[NotifyState::Watchdog]);
        }
    }

    /// We delay READY on purpose: systemd must wait for at least this long.
    pub(crate) fn more_time(&self, time: Duration) {
        let time = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        send(&[NotifyState::ExtendTimeoutUsec(time)]);
    }
}

/// False when systemd has no room, because it has not read earlier notifications. Any other failure
/// would also be the next attempt's.
fn send(states: &[NotifyState<'_>]) -> bool {
    match deliver(states) {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(%error, "cannot notify systemd");
            error.kind() != io::ErrorKind::WouldBlock
        }
    }
}

/// As sd_notify::notify, which would wait for room.
fn deliver(states: &[NotifyState<'_>]) -> io::Result<()> {
    let Some(name) = env::var_os("NOTIFY_SOCKET") else {
        return Ok(());
    };
    let lines: String = states.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    // A path, or a name in the abstract namespace after an `@`.
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    socket.send_to_addr(lines.as_bytes(), &address).map(drop)
}
