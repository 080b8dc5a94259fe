//! The key of a value: its path through the tables, printed as TOML spells it.

use std::fmt;

use super::literal;

/// A path through tables. The parts are kept apart, because a driver's id has dots.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(Vec<String>);

impl Key {
    pub(crate) fn of(parts: &[impl AsRef<str>]) -> Self {
        Self(parts.iter().map(|part| part.as_ref().to_owned()).collect())
    }

    /// The parts, outermost first.
    pub fn parts(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_id = |depth| depth == 1 && self.0[0] == "drivers";
        let parts = self.0.iter().enumerate();
        let parts = parts.map(|(depth, part)| literal::key(part, is_id(depth)));
        f.write_str(&parts.collect::<Vec<_>>().join("."))
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
