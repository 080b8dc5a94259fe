//! The rules for a driver's topology: those of CSI, and those of Kubernetes for labels.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::os::text::printable;

/// The longest value, and the longest part of a key.
const LONGEST: usize = 63;
/// Kubernetes accepts a longer prefix than CSI does.
const LONGEST_PREFIX: usize = 253;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Breach {
    /// What the driver reports, and the rule.
    pub(crate) what: String,
    /// The driver cannot be registered or used like this.
    pub(crate) fatal: bool,
}

impl Breach {
    pub(crate) fn fatal(what: String) -> Breach {
        Breach { what, fatal: true }
    }

    pub(crate) fn harmless(what: String) -> Breach {
        let fatal = false;
        Breach { what, fatal }
    }
}

/// The rules that a node's topology breaks. The kubelet makes labels of the topology, and the API
/// server refuses a bad label together with all the others.
pub(crate) fn topology(segments: &BTreeMap<String, String>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let mut seen = BTreeMap::new();
    for (key, value) in segments {
        let (shown, shown_value) = (printable(key), printable(value));
        breaches.extend(self::key(key));
        if !is_label(value) {
            breaches.push(Breach::fatal(format!(
                "topology {shown} = \"{shown_value}\": a value has 1 to {LONGEST} letters, digits, '-', '_' and '.', with a letter or digit at both ends"
            )));
        }
        if let Some(twin) = seen.insert(key.to_ascii_lowercase(), key) {
            breaches.push(Breach::fatal(format!(
                "topology keys {} and {shown} differ in case only",
                printable(twin)
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
    if !is_label(name) {
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
    let length = prefix.len();
    (length > LONGEST).then(|| {
        Breach::harmless(format!(
            "topology key \"{shown}\": its prefix has {length} characters, more than the {LONGEST} of CSI; Kubernetes accepts {LONGEST_PREFIX}"
        ))
    })
}

/// The syntax of a label's value and of the name in its key.
fn is_label(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_alphanumeric();
    text.len() <= LONGEST && has_only(text, edge, "-_.")
}

/// A DNS name in lower case, as in the name of an object.
pub(super) fn is_subdomain(text: &str) -> bool {
    let edge = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= LONGEST_PREFIX && text.split('.').all(|part| has_only(part, edge, "-"))
}

/// An `edge` character at both ends, and only those and the `inner` characters between.
fn has_only(text: &str, edge: fn(char) -> bool, inner: &str) -> bool {
    let mut characters = text.chars();
    text.starts_with(edge)
        && text.ends_with(edge)
        && characters.all(|c| edge(c) || inner.contains(c))
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
