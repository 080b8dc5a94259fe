//! The network of the unit's sandbox: whether HTTP on a TCP address can be served, and for which clients.

use std::net::{IpAddr, SocketAddr};

use super::unit_properties::{UNIT, UnitProperties};

const PROPERTIES: &str =
    "MainPID,PrivateNetwork,RestrictAddressFamilies,IPAddressAllow,IPAddressDeny";
/// Every address of IPv4 or IPv6, as systemd shows `any`.
const ANY: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// The unit as systemd has loaded it, with its drop-ins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkSandbox {
    /// 0 while the unit does not run.
    pub(crate) main_pid: u32,
    is_private: bool,
    families: String,
    allowed: String,
    denied: String,
}

/// Why clients do not reach a TCP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    /// The daemon cannot listen there. The text has the directives.
    NoTcp(String),
    /// The kernel drops packets of other machines. The text has the directives.
    Filtered(String),
}

impl NetworkSandbox {
    /// The sandbox of the registrar's unit; none without systemd, or without the unit.
    pub(crate) async fn of_unit() -> Option<NetworkSandbox> {
        let properties = UnitProperties::of(UNIT, PROPERTIES).await?;
        Some(NetworkSandbox::of(&properties))
    }

    fn of(properties: &UnitProperties) -> NetworkSandbox {
        let text = |name| properties.value(name).trim().to_owned();
        NetworkSandbox {
            main_pid: properties.value("MainPID").parse().unwrap_or_default(),
            is_private: properties.value("PrivateNetwork") == "yes",
            families: text("RestrictAddressFamilies"),
            allowed: text("IPAddressAllow"),
            denied: text("IPAddressDeny"),
        }
    }

    /// Why clients do not reach a listener at this address.
    pub(crate) fn obstacle(&self, address: SocketAddr) -> Option<Unreachable> {
        if self.is_private || !self.allows_family(address) {
            let private = if self.is_private { "yes" } else { "no" };
            return Some(Unreachable::NoTcp(format!(
                "RestrictAddressFamilies={}, PrivateNetwork={private}",
                self.families
            )));
        }
        let any = match address {
            SocketAddr::V4(_) => ANY[0],
            SocketAddr::V6(_) => ANY[1],
        };
        let is_filtered = self.denied.split_whitespace().any(|denied| denied == any);
        let mut allowed = self.allowed.split_whitespace();
        // Clients on this machine reach a loopback address from a loopback address.
        let suffices = |allowed: &str| address.ip().is_loopback() || !is_loopback(allowed);
        (is_filtered && !allowed.any(suffices)).then(|| {
            Unreachable::Filtered(format!(
                "IPAddressDeny={}, IPAddressAllow={}",
                self.denied, self.allowed
            ))
        })
    }

    /// A list names the families that are allowed or, after a tilde, those that are not.
    fn allows_family(&self, address: SocketAddr) -> bool {
        let family = match address {
            SocketAddr::V4(_) => "AF_INET",
            SocketAddr::V6(_) => "AF_INET6",
        };
        let has = |list: &str| list.split_whitespace().any(|named| named == family);
        match self.families.strip_prefix('~') {
            Some(refused) => !has(refused),
            None => self.families.is_empty() || has(&self.families),
        }
    }
}

/// An address or a network of this machine alone, such as 127.0.0.0/8.
fn is_loopback(network: &str) -> bool {
    let address = network.split('/').next().unwrap_or_default();
    address
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::super::systemctl::Systemctl;
    use super::super::systemctl::tests::script;
    use super::*;

    const LOOPBACK: &str = "127.0.0.1:9809";
    const NODE: &str = "10.0.0.5:9809";

    async fn asked(lines: &str) -> Option<NetworkSandbox> {
        let (_dir, path) = script(&format!("[ $4 = {UNIT} ] && printf '{lines}'"));
        let asked = UnitProperties::ask(Systemctl(&path), UNIT, PROPERTIES).await;
        asked.unwrap().as_ref().map(NetworkSandbox::of)
    }

    fn obstacle(sandbox: &NetworkSandbox, address: &str) -> Option<Unreachable> {
        sandbox.obstacle(address.parse().unwrap())
    }

    #[tokio::test]
    async fn the_shipped_unit_allows_no_tcp() {
        let shipped = asked("LoadState=loaded\\nMainPID=7\\nPrivateNetwork=yes\\nRestrictAddressFamilies=AF_UNIX\\nIPAddressAllow=\\nIPAddressDeny=::/0 0.0.0.0/0\\n").await.unwrap();
        assert_eq!(shipped.main_pid, 7);
        let words = "RestrictAddressFamilies=AF_UNIX, PrivateNetwork=yes".to_owned();
        assert_eq!(
            obstacle(&shipped, LOOPBACK),
            Some(Unreachable::NoTcp(words))
        );
    }

    #[tokio::test]
    async fn the_drop_in_serves_this_machine_alone() {
        let lines = "LoadState=loaded\\nMainPID=7\\nPrivateNetwork=no\\nRestrictAddressFamilies=AF_UNIX AF_INET AF_INET6\\nIPAddressAllow=127.0.0.0/8 ::1/128\\nIPAddressDeny=::/0 0.0.0.0/0\\n";
        let mut with = asked(lines).await.unwrap();
        assert_eq!(obstacle(&with, LOOPBACK), None);
        assert_eq!(obstacle(&with, "[::1]:9809"), None);
        for address in [NODE, "0.0.0.0:9809", "[::]:9809"] {
            let found = obstacle(&with, address);
            assert!(
                matches!(found, Some(Unreachable::Filtered(_))),
                "{address}: {found:?}"
            );
        }
        with.allowed += " 10.0.0.0/8";
        assert_eq!(obstacle(&with, NODE), None);
        with.allowed.clear();
        assert!(obstacle(&with, LOOPBACK).is_some());
        with.denied.clear();
        assert_eq!(obstacle(&with, NODE), None);
    }

    #[tokio::test]
    async fn a_list_with_a_tilde_names_what_is_refused() {
        let mut sandbox = NetworkSandbox::default();
        assert_eq!(obstacle(&sandbox, NODE), None);
        "~AF_PACKET".clone_into(&mut sandbox.families);
        assert_eq!(obstacle(&sandbox, NODE), None);
        "~AF_PACKET AF_INET".clone_into(&mut sandbox.families);
        assert!(matches!(
            obstacle(&sandbox, NODE),
            Some(Unreachable::NoTcp(_))
        ));
        assert_eq!(asked("LoadState=not-found\\n").await, None);
    }
}
