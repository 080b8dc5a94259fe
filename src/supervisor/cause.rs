//! What is wrong with a driver, as a code that programs tell apart.

use super::runner::Runner;
use crate::disk::obstacle::Obstacle;
use crate::driver::Refusal;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::Cause;

impl Runner {
    /// The code that goes with the reason.
    pub(super) fn cause(&self) -> Cause {
        let driver = &self.driver;
        let cause = match driver.phase() {
            Phase::Conflict => driver.obstacle().map(Obstacle::cause),
            Phase::Rejected => driver.refusal().map(Refusal::cause),
            Phase::WaitingForKubelet => driver
                .waits_for_a_restart_of_the_kubelet()
                .then_some(Cause::DirectoryReplaced),
            Phase::WaitingForDriver | Phase::Registered | Phase::Withdrawn => {
                driver.is_silent().then_some(self.silence)
            }
        };
        cause.unwrap_or(Cause::Unspecified)
    }
}
