//! The limit of open files (RLIMIT_NOFILE).

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Open files beside those of the drivers: inotify, the runtime, the control socket and its clients,
/// kubelets.
const BASE: u64 = 64;
/// A driver has a connection to csi.sock and a listener, and one or two connections more while a kubelet
/// calls or while another process serves at its place.
const EACH: u64 = 4;

/// Raises the soft limit to the hard limit, and warns when that is short for so many drivers. Drivers
/// that appear later have the same room.
pub(crate) fn raise_open_files(drivers: usize) {
    let needed = needed(drivers);
    let limits = getrlimit(Resource::RLIMIT_NOFILE);
    let raised = limits.and_then(|(soft, limit)| {
        setrlimit(Resource::RLIMIT_NOFILE, limit, limit)?;
        Ok((soft, limit))
    });
    match raised {
        Ok((_, limit)) if limit < needed => tracing::warn!(
            drivers,
            needed,
            limit,
            "the limit of open files (LimitNOFILE=) is short for so many drivers; some may not be served"
        ),
        Ok((soft, limit)) if soft < needed => {
            tracing::info!(from = soft, to = limit, "raised the limit of open files");
        }
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "cannot raise the limit of open files"),
    }
}

fn needed(drivers: usize) -> u64 {
    BASE + EACH * drivers as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_drivers_need_more_than_the_usual_limit_and_a_hundred_do_not() {
        assert!(needed(100) <= 1024);
        assert!(needed(1000) > 1024);
    }
}
