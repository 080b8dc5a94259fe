//! The matrix as tables: everything for the log, the counts for docs/survival.md.

use std::fs;

use bed::Release;

use super::Cell;
use super::event::Event;

const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/survival.md");
const BEGIN: &str = "<!-- counts: written by tests/matrix with UPDATE_DOCS=1 -->\n";
const END: &str = "<!-- end of counts -->\n";

pub(super) fn number(release: Release) -> &'static str {
    match release {
        Release::V1_24 => "1.24",
        Release::V1_35 => "1.35",
        Release::V1_36 => "1.36",
    }
}

/// Everything that was measured, in Markdown.
pub(super) fn measured(cells: &[Cell]) -> String {
    let mut table = "| event | kubelet | registrations | de-registrations | API writes | seconds until registered |\n|---|---|---|---|---|---|\n".to_owned();
    for cell in cells {
        table += &format!(
            "| {} | {} | {} | {} | {} | {:.1} |\n",
            cell.event.words(),
            number(cell.release),
            cell.counts.registrations,
            cell.counts.deregistrations,
            cell.counts.api_writes(),
            cell.seconds
        );
    }
    table
}

/// The page has the measured counts, or gets them with `UPDATE_DOCS=1`.
pub(super) fn check_docs(cells: &[Cell]) {
    let docs = fs::read_to_string(DOCS).unwrap();
    let (before, rest) = docs
        .split_once(BEGIN)
        .expect("docs/survival.md has a table");
    let (written, after) = rest.split_once(END).expect("the table has an end");
    let counts = counts(cells);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(DOCS, format!("{before}{BEGIN}{counts}{END}{after}")).unwrap();
    } else {
        assert_eq!(written, counts, "docs/survival.md; UPDATE_DOCS=1 writes it");
    }
}

/// Counts alone: seconds differ from run to run.
fn counts(cells: &[Cell]) -> String {
    let mut table = "| event | 1.24 | 1.35 | 1.36 |\n|---|---|---|---|\n".to_owned();
    for event in Event::ALL {
        table += &format!("| {} |", event.words());
        for cell in cells.iter().filter(|cell| cell.event == event) {
            table += &format!(
                " {} / {} / {} |",
                cell.counts.registrations,
                cell.counts.deregistrations,
                cell.counts.api_writes()
            );
        }
        table += "\n";
    }
    table
}
