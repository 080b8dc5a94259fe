//! The rules of CSI that an answer can break, and whether Kubernetes minds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::os::text::printable;

/// Of a topology's key, each part, and of its value.
const LONGEST: usize = 63;
/// Kubernetes takes a longer prefix than CSI does.
const LONGEST_PREFIX: usize = 253;

/// A rule that is broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Breach {
    /// What was seen, and what the rule is.
    pub(crate) what: String,
    /// The driver cannot be registered or used so.
    pub(crate) fatal: bool,
}

impl Breach {
    pub(crate) fn fatal(what: impl Into<String>) -> Breach {
        Breach {
            what: what.into(),
            fatal: true,
        }
    }

    pub(crate) fn harmless(what: impl Into<String>) -> Breach {
        Breach {
            what: what.into(),
            fatal: false,
        }
    }
}

/// What is wrong with a node's topology. The kubelet makes labels of it, and the API server refuses
/// a bad one together with all the others.
pub(crate) fn topology(segments: &BTreeMap<String, String>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut seen = BTreeMap::new();
    for (key, value) in segments {
        breaches.extend(self::key(key));
        if !is_word(value) {
            breaches.push(Breach::fatal(format!(
                "topology {} = \"{}\": a value has 1 to {LONGEST} letters, digits, '-', '_' and '.', with a letter or digit at both ends",
                printable(key),
                printable(value)
            )));
        }
        if let Some(twin) = seen.insert(key.to_ascii_lowercase(), key) {
            breaches.push(Breach::fatal(format!(
                "topology keys {} and {} differ in case only",
                printable(twin),
                printable(key)
            )));
        }
    }
    breaches
}

fn key(key: &str) -> Option<Breach> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let shown = printable(key);
    if !is_word(name) {
        return Some(Breach::fatal(format!(
            "topology key \"{shown}\": its name has 1 to {LONGEST} letters, digits, '-', '_' and '.', with a letter or digit at both ends"
        )));
    }
    let prefix = prefix?;
    if !is_subdomain(prefix) {
        return Some(Breach::fatal(format!(
            "topology key \"{shown}\": its prefix must be a DNS name in lower case"
        )));
    }
    (prefix.len() > LONGEST).then(|| {
        Breach::harmless(format!(
            "topology key \"{shown}\": its prefix has {} characters, more than the {LONGEST} of CSI; Kubernetes takes {LONGEST_PREFIX}",
            prefix.len()
        ))
    })
}

/// The syntax of a label's value and of the name in its key.
fn is_word(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= LONGEST
        && edge(text.chars().next())
        && edge(text.chars().last())
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_subdomain(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_part = |part: &str| {
        edge(part.chars().next())
            && edge(part.chars().last())
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(segments: &[(&str, &str)]) -> Vec<Breach> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        topology(&segments.iter().map(owned).collect())
    }

    #[test]
    fn takes_what_real_drivers_report() {
        let none = breaches(&[
            ("topology.ebs.csi.aws.com/zone", "eu-central-1a"),
            ("kubernetes.io/os", "linux"),
            ("rack", "R_12.b"),
        ]);
        assert_eq!(none, []);
    }

    #[test]
    fn names_the_key_whose_label_the_api_server_would_refuse() {
        let (long, long_prefix) = ("x".repeat(64), "x".repeat(60) + ".abcd/zone");
        for (key, value, fatal) in [
            ("zone", "", true),
            ("zone", "a b", true),
            ("zone", "-a", true),
            ("zone", long.as_str(), true),
            ("", "a", true),
            ("a/b/c", "a", true),
            ("Example.com/zone", "a", true),
            ("/zone", "a", true),
            ("zone\u{1b}[2J", "a", true),
            (long_prefix.as_str(), "a", false),
        ] {
            let found = breaches(&[(key, value)]);
            assert_eq!(found.len(), 1, "{key}={value}: {found:?}");
            assert_eq!(found[0].fatal, fatal, "{key}={value}");
            assert!(!found[0].what.contains('\u{1b}'));
        }
        assert!(breaches(&[("Zone", "a"), ("zone", "a")])[0].fatal);
    }
}
