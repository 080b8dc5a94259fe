//! The daemon's own notes, except those that another check says with a better fix.

use super::{Finding, Inputs, idle_directories};

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
        _ => has_cause(note, finding),
    })
}

/// The note begins with the finding's cause, behind the driver's id or a key of the configuration. The
/// finding may add further paths to the cause, and the note a fix.
fn has_cause(note: &str, finding: &Finding) -> bool {
    let cause = finding.found.split("; ").next().unwrap_or_default();
    let (whole, behind) = match &finding.driver {
        Some(id) => {
            let behind = note.strip_prefix(id.as_str());
            (None, behind.and_then(|rest| rest.strip_prefix(": ")))
        }
        None => {
            let parts = note.split_once(": ");
            let parts = parts.filter(|(subject, _)| !subject.contains(' '));
            (Some(note), parts.map(|(_, rest)| rest))
        }
    };
    let mut texts = whole.into_iter().chain(behind);
    let is_end = |rest: &str| rest.is_empty() || rest.starts_with([';', ':', ',']);
    !cause.is_empty() && texts.any(|text| text.strip_prefix(cause).is_some_and(is_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_finding_about_the_same_cause_hides_a_note() {
        let missing = "/v/p is missing (is /v mounted?)";
        let note = format!("plugins_dir: {missing}, so that discovery finds no driver");
        let found = |check, found: &str| Finding::warning(check, found, "");
        assert!(is_said(&note, &[found("plugins_dir", missing)]));
        assert!(is_said(missing, &[found("daemon", missing)]));
        let of_driver = |id: &str| Finding {
            driver: Some(id.to_owned()),
            ..found("plugin directory", "/p belongs to uid 7, not to root")
        };
        let note = "a: /p belongs to uid 7, not to root: chown";
        assert!(is_said(note, &[of_driver("a")]));
        assert!(!is_said(note, &[of_driver("b")]));
        // Words of a driver or of another program, which may be a part of any note.
        for (words, note) in [
            ("not", "http is not served: the address is in use"),
            ("state.json", "cannot write /run/state.json: no space left"),
            ("/v is missing", "plugins_dir: /v is missing2"),
        ] {
            assert!(!is_said(note, &[found("registered", words)]), "{note}");
        }
    }
}
