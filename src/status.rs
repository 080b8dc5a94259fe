//! The status as people and programs read it.

use crate::driver::phase::Phase;
use crate::proto::control::Status;

/// The JSON of `status --json`, on one line.
pub(crate) fn json(status: &Status) -> Result<String, serde_json::Error> {
    serde_json::to_string(status)
}

/// Every driver is registered.
pub(crate) fn is_well(status: &Status) -> bool {
    status
        .drivers
        .iter()
        .all(|driver| driver.phase == Phase::Registered.as_str())
}

/// A table for people.
pub(crate) fn table(status: &Status) -> String {
    let mut lines = vec![format!("{:<32} {:<20} {}", "DRIVER", "PHASE", "REASON")];
    if status.drivers.is_empty() {
        return "there are no drivers".to_owned();
    }
    for driver in &status.drivers {
        lines.push(format!(
            "{:<32} {:<20} {}",
            driver.id, driver.phase, driver.reason
        ));
    }
    lines.join("\n")
}
