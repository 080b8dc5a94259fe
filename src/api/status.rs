//! The status as programs read it: its JSON, and how many drivers are registered.

use crate::driver::phase::Phase;
use crate::grpc::proto::control::{Driver, Status};
use crate::os::text::printable_json;

/// The JSON of `status --json`, on one line.
pub(crate) fn json(status: &Status) -> Result<String, serde_json::Error> {
    serde_json::to_string(status).map(printable_json)
}

/// How many drivers are registered.
pub(crate) fn registered(status: &Status) -> usize {
    let is_registered = |driver: &&Driver| driver.phase == Phase::Registered.as_str();
    status.drivers.iter().filter(is_registered).count()
}
