//! The lists: a line for each name that is promised, with its subject first and its type, default or meaning last.

use std::collections::BTreeSet;

use crate::release::{Release, VERSION};

/// The first word of each line, and the page that has the names of these lines.
pub(crate) const SUBJECTS: [(&str, &str); 22] = [
    ("key", "docs/configuration.md"),
    ("variable", "docs/configuration.md"),
    ("phase", "docs/operating.md"),
    ("exit", "docs/operating.md"),
    ("command", "docs/stability.md"),
    ("json:status", "docs/operating.md"),
    ("json:doctor", "docs/operating.md"),
    ("json:inspect", "docs/operating.md"),
    ("json:verify", "docs/operating.md"),
    ("level", "docs/operating.md"),
    ("what", "docs/cluster.md"),
    ("http", "docs/operating.md"),
    ("metric", "docs/fleet.md"),
    ("message", "docs/stability.md"),
    ("field", "docs/operating.md"),
    ("package", "docs/stability.md"),
    ("unit", "docs/stability.md"),
    ("runtime", "docs/stability.md"),
    ("registry", "docs/stability.md"),
    ("notify", "docs/stability.md"),
    ("state.json", "docs/stability.md"),
    ("control.sock", "docs/stability.md"),
];

/// All lines of the lists, in pairs of the subject and the rest.
pub(crate) fn promised() -> Vec<(String, String)> {
    let lists: Vec<String> = Release::all()
        .iter()
        .map(|release| release.text("list"))
        .collect();
    let lines = lists.iter().flat_map(|list| list.lines());
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("{line}")));
    pairs
        .map(|(subject, rest)| (subject.to_owned(), rest.to_owned()))
        .collect()
}

/// The lines of one subject.
pub(crate) fn about(subject: &str) -> BTreeSet<String> {
    assert!(SUBJECTS.iter().any(|(known, _)| *known == subject));
    let lines = promised().into_iter();
    lines
        .filter(|(of, _)| of == subject)
        .map(|(_, rest)| rest)
        .collect()
}

/// The program says exactly what is promised of this subject.
#[track_caller]
pub(crate) fn keeps(subject: &str, said: impl IntoIterator<Item = String>) {
    let (promised, said) = (about(subject), said.into_iter().collect::<BTreeSet<_>>());
    let lines = |only: Vec<&String>| -> String {
        let lines = only.iter().map(|rest| format!("\n{subject} {rest}"));
        lines.collect()
    };
    let broken = lines(promised.difference(&said).collect());
    let added = lines(said.difference(&promised).collect());
    let mut complaints = String::new();
    if !broken.is_empty() {
        complaints += &format!(
            "\nThis breaks a promise of docs/stability.md. The program no longer says:{broken}\n"
        );
    }
    if !added.is_empty() {
        complaints += &format!(
            "\nThe program says what no list has. Once released it stays: add it to tests/promises/{VERSION}/list, \
             or to the list of the next version if {VERSION} is released, and to the page:{added}\n"
        );
    }
    assert!(complaints.is_empty(), "{complaints}");
}

#[test]
fn every_line_of_the_lists_has_a_subject_that_a_test_compares_and_stands_once() {
    let lines = promised();
    for (subject, rest) in &lines {
        let is_known = SUBJECTS.iter().any(|(known, _)| known == subject);
        assert!(is_known, "{subject} {rest}");
    }
    let different: BTreeSet<_> = lines.iter().collect();
    assert_eq!(different.len(), lines.len(), "a line stands twice");
}
