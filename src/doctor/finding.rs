//! A finding of the doctor: a fault or a warning, and how to fix it.

use serde::Serialize;

/// The name of a check, for people: docs/stability.md does not promise it.
type Check = &'static str;

/// The fix for a check that needs more rights.
pub(super) const AS_ROOT: &str = "run the doctor as root";

/// The fix for a daemon that has to read its configuration again.
pub(super) const RELOAD: &str = "node-storage-driver-registrar reload";

/// A finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// The part of the way from the configuration to the kubelet.
    pub(crate) check: Check,
    /// The id of the driver, for a finding about a single driver.
    pub(crate) driver: Option<String>,
    pub(crate) found: String,
    /// A command, where a command fixes it.
    pub(crate) fix: String,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Fault,
    Warning,
}

impl Finding {
    pub(super) fn fault(check: Check, found: impl ToString, fix: impl ToString) -> Finding {
        Finding {
            level: Level::Fault,
            check,
            driver: None,
            found: found.to_string(),
            fix: fix.to_string(),
        }
    }

    pub(super) fn warning(check: Check, found: impl ToString, fix: impl ToString) -> Finding {
        Finding {
            level: Level::Warning,
            ..Finding::fault(check, found, fix)
        }
    }
}
