//! systemd: notifications to it, questions to it, its journal and its sandbox.

pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod log;
pub(crate) mod notify;
pub(crate) mod sandbox;
mod systemctl;

use std::env;

/// systemd runs this process: it gave us a socket for notifications, or it names our pid as the
/// process that it started.
pub(crate) fn runs_us() -> bool {
    let ours = std::process::id().to_string();
    env::var_os("NOTIFY_SOCKET").is_some()
        || env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == ours)
}
