//! The key of a value: its path through the tables, printed as TOML spells it.

use std::fmt;

use super::literal;

/// A path through tables. The parts are kept apart, because a driver's id has dots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Vec<String>);

impl Key {
    pub(super) fn of(parts: &[&str]) -> Self {
        Self(parts.iter().map(|part| (*part).to_owned()).collect())
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
        let key = Key::of(&["drivers", "local.csi.paas.cucloud", "csi_socket"]);
        assert_eq!(
            key.to_string(),
            r#"drivers."local.csi.paas.cucloud".csi_socket"#
        );
        assert_eq!(
            Key::of(&["drivers", "nfs", "name"]).to_string(),
            r#"drivers."nfs".name"#
        );
        assert_eq!(Key::of(&["log", "le vel"]).to_string(), r#"log."le vel""#);
        assert_eq!(Key::of(&["log", "level"]).to_string(), "log.level");
    }
}
