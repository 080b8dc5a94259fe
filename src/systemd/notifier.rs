//! What systemd is told: readiness, a line of truth, life signs.

use std::time::Duration;

use sd_notify::NotifyState;

/// The channel to systemd. Without one, everything here does nothing.
pub(crate) struct Notifier {
    status: String,
    watchdog: Option<Duration>,
}

impl Notifier {
    pub(crate) fn new() -> Notifier {
        Notifier {
            status: String::new(),
            watchdog: sd_notify::watchdog_enabled(),
        }
    }

    /// How often the main loop has to show that it is alive.
    pub(crate) fn life_sign_interval(&self) -> Option<Duration> {
        self.watchdog.map(|timeout| timeout / 2)
    }

    pub(crate) fn ready(&mut self, status: &str) {
        self.status = status.to_owned();
        send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// From 253 on systemd wants to know since when; older ones pass over that line.
    pub(crate) fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(since) => send(&[NotifyState::Reloading, since]),
            Err(error) => tracing::debug!(%error, "the clock cannot be read"),
        }
    }

    /// Says how things are, when that has changed.
    pub(crate) fn status(&mut self, status: &str) {
        if self.status != status {
            self.status = status.to_owned();
            send(&[NotifyState::Status(status)]);
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

fn send(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "systemd could not be told");
    }
}
