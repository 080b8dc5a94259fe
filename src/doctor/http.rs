//! HTTP on a TCP address: the unit's sandbox lets the daemon listen there, and lets clients in.

use super::{Finding, Inputs};
use crate::config::Listen;
use crate::disk::drop_in::{APPLY, HTTP_TCP};
use crate::disk::runtime_dir::last_holder;
use crate::systemd::network_sandbox::{NetworkSandbox, Unreachable};

pub(super) const CHECK: &str = "http";

pub(super) async fn check(inputs: &Inputs) -> Option<Finding> {
    let Some(Listen::Tcp(address)) = inputs.settings.http.listen else {
        return None;
    };
    let sandbox = NetworkSandbox::of_unit().await?;
    // The sandbox says nothing about a daemon that systemd did not start.
    let is_units = match &inputs.daemon {
        Ok(_) => last_holder(&inputs.runtime) == Some(sandbox.main_pid),
        Err(_) => true,
    };
    let obstacle = sandbox.obstacle(address).filter(|_| is_units)?;
    let key = format!("http.listen = \"{address}\"");
    Some(finding(&key, &obstacle))
}

fn finding(key: &str, obstacle: &Unreachable) -> Finding {
    let (found, fix) = match obstacle {
        Unreachable::NoTcp(directives) => (
            format!("{key}, but the unit's sandbox allows no TCP ({directives})"),
            format!(
                "{}; or set http.listen = \"unix:/run/node-storage-driver-registrar/http.sock\"",
                HTTP_TCP.install()
            ),
        ),
        Unreachable::Filtered(directives) => (
            format!(
                "{key}, but the unit's sandbox drops the packets of other machines ({directives}): their connections time out"
            ),
            format!(
                "add a line with the addresses of the clients, such as IPAddressAllow=10.0.0.0/8, to {}; then: {APPLY}",
                HTTP_TCP.installed()
            ),
        ),
    };
    Finding::warning(CHECK, found, fix)
}

/// The daemon's note that it could not listen.
pub(super) fn is_note(note: &str) -> bool {
    note.contains(&HTTP_TCP.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_names_the_drop_in_where_it_is_and_where_it_goes() {
        let key = "http.listen = \"10.0.0.5:9809\"";
        let refused = finding(key, &Unreachable::NoTcp("X".to_owned()));
        assert!(refused.found.starts_with(key), "{refused:?}");
        assert!(refused.fix.contains(&HTTP_TCP.to_string()), "{refused:?}");
        let filtered = finding(key, &Unreachable::Filtered("X".to_owned()));
        assert!(filtered.found.contains("time out"), "{filtered:?}");
        assert!(filtered.fix.contains("IPAddressAllow="), "{filtered:?}");
        assert!(filtered.fix.contains(&HTTP_TCP.installed()), "{filtered:?}");
    }
}
