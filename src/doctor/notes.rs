//! The daemon's own notes, except those that another check says with a better fix.

use super::{Finding, Inputs, http, idle_directories};

const FIX: &str = "see journalctl -u node-storage-driver-registrar";

pub(super) fn check(inputs: &Inputs, findings: &[Finding]) -> Vec<Finding> {
    let notes = inputs.daemon.iter().flat_map(|status| &status.notes);
    notes
        .filter(|note| !is_said(note, findings))
        .map(|note| Finding::warning("daemon", note, FIX))
        .collect()
}

/// A finding says the same as the note.
fn is_said(note: &str, findings: &[Finding]) -> bool {
    findings.iter().any(|finding| match finding.check {
        idle_directories::CHECK => idle_directories::is_note(note),
        http::CHECK => http::is_note(note),
        // The note has the cause, and the finding may add further paths to it.
        _ => {
            let cause = finding.found.split("; ").next().unwrap_or_default();
            !cause.is_empty() && note.contains(cause)
        }
    })
}
