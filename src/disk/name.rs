//! The name that a driver reports. It becomes a file name, so this type holds only checked names.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::os::text::printable;

const LONGEST: usize = 63;

/// A name that follows the CSI rules: at most 63 letters, digits, `-` and `.`, with a letter or
/// digit at both ends. It cannot hold a `/` and cannot start with a dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct DriverName(String);

/// Which rule a name breaks.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// The driver reports no name.
    #[error("the name is empty")]
    Empty,
    /// More than 63 characters.
    #[error("the name \"{name}\" has {length} characters, more than {LONGEST}")]
    TooLong {
        /// The reported name, made printable.
        name: String,
        /// Its length in characters.
        length: usize,
    },
    /// The rules do not allow a character, or not at its place.
    #[error(
        "the name \"{0}\" may hold only letters, digits, '-' and '.', and must start and end with a letter or digit"
    )]
    BadCharacter(String),
}

impl DriverName {
    /// Checks `name` against the CSI rules.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn parse(name: &str) -> Result<DriverName, NameError> {
        let length = name.chars().count();
        if length == 0 {
            return Err(NameError::Empty);
        }
        if length > LONGEST {
            return Err(NameError::TooLong {
                name: printable(name),
                length,
            });
        }
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        if name.chars().all(inside) && edge(name.chars().next()) && edge(name.chars().last()) {
            Ok(DriverName(name.to_owned()))
        } else {
            Err(NameError::BadCharacter(printable(name)))
        }
    }

    /// The name as the driver wrote it.
    #[must_use]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DriverName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for DriverName {
    type Error = NameError;

    fn try_from(name: String) -> Result<DriverName, NameError> {
        DriverName::parse(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_names_that_real_drivers_have() {
        for name in [
            "nfs.csi.k8s.io",
            "local.csi.paas.cucloud",
            "a",
            "A-1",
            &"x".repeat(63),
        ] {
            assert_eq!(DriverName::parse(name).unwrap().as_str(), name);
        }
    }

    #[test]
    fn refuses_what_could_leave_the_directory_or_break_the_rules() {
        let too_long = "x".repeat(64);
        for name in [
            "",
            "../../etc/x",
            "a/b",
            ".a",
            "a.",
            "-a",
            "a-",
            "a_b",
            "a b",
            "a\0",
            "é",
            "a\n",
            &too_long,
        ] {
            assert!(DriverName::parse(name).is_err(), "{name:?} was taken");
        }
    }

    #[test]
    fn says_which_rule_is_broken() {
        let said = DriverName::parse("../\u{1b}[2J").unwrap_err().to_string();
        assert!(said.contains("\"../\\u{1b}[2J\""), "{said}");
    }
}
