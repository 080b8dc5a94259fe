//! systemd: what it is told, and what it is asked.

mod bus;
pub(crate) mod job;
pub(crate) mod notifier;
pub(crate) mod sandbox;

use std::env;
use std::os::unix::process::parent_id;

/// systemd runs us. Before 248 it has no better sign for a unit without `Type=notify` than that it
/// is our parent: others inherit the id of an invocation.
pub(crate) fn runs_us() -> bool {
    let ours = std::process::id().to_string();
    env::var_os("NOTIFY_SOCKET").is_some()
        || env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == ours)
        || env::var_os("INVOCATION_ID").is_some() && parent_id() == 1
}
