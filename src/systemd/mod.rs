//! systemd: what it is told, and what it is asked.

mod bus;
pub(crate) mod job;
pub(crate) mod journal;
pub(crate) mod log;
mod main_pid;
pub(crate) mod notify;
pub(crate) mod sandbox;

use std::env;

pub(crate) use self::main_pid::main_pids_of_kubelets;

/// systemd runs us: it listens to what we have to say, or says that we are what it has started.
pub(crate) fn runs_us() -> bool {
    let ours = std::process::id().to_string();
    env::var_os("NOTIFY_SOCKET").is_some()
        || env::var("SYSTEMD_EXEC_PID").is_ok_and(|pid| pid == ours)
}
