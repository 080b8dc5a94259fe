//! The name of one value: a path of keys, printed as TOML has it.

use std::fmt;

use super::literal;

/// Every key outside `[drivers]`. What the structs know is the same list: a test compares them.
pub(super) const KEYS: &[&str] = &[
    "plugins_dir",
    "registry_dir",
    "kubelet.root_dir",
    "kubelet.registry_dir",
    "kubelet.sees_registry_as",
    "defaults.request_timeout",
    "defaults.node_info_timeout",
    "defaults.retry_max",
    "defaults.require_probe",
    "defaults.withdraw_after",
    "defaults.on_live_owner",
    "discovery.enabled",
    "discovery.exclude",
    "service.ready_when",
    "service.ready_timeout",
    "service.on_stop",
    "http.listen",
    "log.level",
    "log.target",
];

/// A path of keys. Its parts stay apart, because a driver's id has dots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Vec<String>);

impl Key {
    pub(super) fn of(parts: &[&str]) -> Self {
        Self(parts.iter().map(|part| (*part).to_owned()).collect())
    }

    pub(super) fn driver(id: &str, key: &str) -> Self {
        Self::of(&["drivers", id, key])
    }

    pub(super) fn driver_table(id: &str) -> Self {
        Self::of(&["drivers", id])
    }

    /// Only for the keys in `KEYS`, whose parts have no dots.
    pub(super) fn dotted(key: &str) -> Self {
        Self(key.split('.').map(str::to_owned).collect())
    }

    /// The parts, outermost first.
    pub fn parts(&self) -> &[String] {
        &self.0
    }
}

impl From<Vec<String>> for Key {
    fn from(parts: Vec<String>) -> Self {
        Self(parts)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, part) in self.0.iter().enumerate() {
            if depth > 0 {
                f.write_str(".")?;
            }
            f.write_str(&literal::key(part, depth == 1 && self.0[0] == "drivers"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_an_id_and_whatever_is_no_bare_key() {
        let key = Key::driver("local.csi.paas.cucloud", "csi_socket");
        assert_eq!(
            key.to_string(),
            r#"drivers."local.csi.paas.cucloud".csi_socket"#
        );
        assert_eq!(
            Key::driver("nfs", "name").to_string(),
            r#"drivers."nfs".name"#
        );
        assert_eq!(Key::of(&["log", "le vel"]).to_string(), r#"log."le vel""#);
        assert_eq!(Key::of(&["log", "level"]).to_string(), "log.level");
    }
}
