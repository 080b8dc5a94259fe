//! The status as people and programs read it.

use crate::driver::phase::Phase;
use crate::grpc::proto::control::Status;
use crate::os::text::printable_json;

/// What a terminal is taken to have when nobody says otherwise.
pub(crate) const WIDTH: usize = 80;

/// The JSON of `status --json`, on one line.
pub(crate) fn json(status: &Status) -> Result<String, serde_json::Error> {
    serde_json::to_string(status).map(printable_json)
}

/// Every driver is registered.
pub(crate) fn is_well(status: &Status) -> bool {
    status
        .drivers
        .iter()
        .all(|driver| driver.phase == Phase::Registered.as_str())
}
