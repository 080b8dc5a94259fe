//! Service links: the variables that Kubernetes sets in each container for the Services of its
//! namespace. Those of a Service named `nsdr` or `nsdr-…` begin as ours do.
//!
//! There are two kinds: `NSDR_SERVICE_HOST` and the like, and `NSDR_PORT_80_TCP_ADDR` and the like,
//! which come from Docker's links.

use std::net::{IpAddr, SocketAddr};

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

/// Whether Kubernetes has set this variable, judged by both its name and its value.
pub(super) fn is_service_link(name: &str, value: &str) -> bool {
    let is_text = |part: &str| !part.is_empty() && part.bytes().all(is_in_names);
    // The name of a Service may itself contain these words.
    splits(name, "_SERVICE_").any(|(service, what)| {
        let is_port = what == "PORT" || what.strip_prefix("PORT_").is_some_and(is_text);
        let fits = (what == "HOST" && is_host(value)) || (is_port && is_port_number(value));
        is_text(service) && fits
    }) || splits(name, "_PORT").any(|(service, what)| {
        is_text(service) && (is_address_of(what, value) || (what.is_empty() && is_address(value)))
    })
}

/// The parts before and after each occurrence of `between`.
fn splits<'a>(name: &'a str, between: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let length = between.len();
    name.match_indices(between)
        .map(move |(at, _)| (&name[..at], &name[at + length..]))
}

fn is_in_names(byte: u8) -> bool {
    byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_'
}

/// `_80_TCP` and the parts that may follow it, each with its own kind of value.
fn is_address_of(what: &str, value: &str) -> bool {
    let mut parts = what.split('_');
    let (Some(""), Some(port), Some(protocol)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let protocol = protocol.to_ascii_lowercase();
    let fits = match (parts.next(), parts.next()) {
        (None, None) => is_address(value),
        (Some("PROTO"), None) => value == protocol,
        (Some("PORT"), None) => value == port,
        (Some("ADDR"), None) => is_host(value),
        _ => false,
    };
    is_port_number(port) && PROTOCOLS.contains(&&*protocol) && fits
}

fn is_host(value: &str) -> bool {
    value.parse::<IpAddr>().is_ok()
}

fn is_port_number(value: &str) -> bool {
    value.parse::<u16>().is_ok()
}

/// `tcp://10.96.14.2:80`
fn is_address(value: &str) -> bool {
    value.split_once("://").is_some_and(|(protocol, address)| {
        PROTOCOLS.contains(&protocol) && address.parse::<SocketAddr>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::environment::variable;
    use crate::config::schema::keys_below;

    /// A value of each kind that a service's variable may have.
    const VALUES: [&str; 5] = ["10.0.0.1", "fd00::1", "80", "tcp://10.0.0.1:80", "tcp"];

    #[test]
    fn no_key_is_ever_taken_for_a_services_variable() {
        for key in keys_below(&[]) {
            for value in VALUES {
                assert!(!is_service_link(&variable(&key), value), "{key} = {value}");
            }
        }
    }

    #[test]
    fn what_kubernetes_sets_is_known() {
        let address = "sctp://[fd00::1]:80";
        for service in [
            "NSDR",
            "NSDR_LOG",
            "NSDR_SERVICE_HOST",
            "NSDR_PORT_80_TCP",
            "NSDR__X",
        ] {
            for (what, value) in [
                ("SERVICE_HOST", "fd00::1"),
                ("SERVICE_PORT", "80"),
                ("SERVICE_PORT_HTTP", "80"),
                ("SERVICE_PORT_A_1", "65535"),
                ("PORT", address),
                ("PORT_80_SCTP", address),
                ("PORT_80_SCTP_PROTO", "sctp"),
                ("PORT_80_SCTP_PORT", "80"),
                ("PORT_80_SCTP_ADDR", "fd00::1"),
                ("PORT_53_UDP", "udp://10.0.0.1:53"),
            ] {
                let name = format!("{service}_{what}");
                assert!(is_service_link(&name, value), "{name} = {value}");
            }
        }
    }

    #[test]
    fn what_kubernetes_never_sets_is_not_passed_over() {
        for (name, value) in [
            ("NSDR_SERVICE_HOST", "node-1"),
            ("NSDR_SERVICE_PORT", "65536"),
            ("NSDR_SERVICE_PORT_", "80"),
            ("NSDR_SERVICE_PORT_http", "80"),
            ("NSDR_SERVICE_READY_WHEN", "started"),
            ("NSDR_PORT", "9809"),
            ("NSDR_PORT", "http://10.0.0.1:80"),
            ("NSDR_PORTS", "tcp://10.0.0.1:80"),
            ("NSDR_PORT_80", "tcp://10.0.0.1:80"),
            ("NSDR_PORT_80_ICMP", "tcp://10.0.0.1:80"),
            ("NSDR_PORT_80_TCP_PROTO", "udp"),
            ("NSDR_PORT_80_TCP_PORT", "81"),
            ("NSDR_PORT_80_TCP_ADDR", "here"),
            ("NSDR_PORT_80_TCP_ADDR_X", "10.0.0.1"),
            ("NSDR_HTTP__PORT", "80"),
            ("NSDR_log_PORT", "tcp://10.0.0.1:80"),
            ("_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert!(!is_service_link(name, value), "{name} = {value}");
        }
    }
}
