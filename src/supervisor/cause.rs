//! What is wrong with a driver, as a code that programs tell apart.

use super::runner::Runner;
use crate::csi::error::DriverError;
use crate::disk::obstacle::Obstacle;
use crate::driver::Refusal;
use crate::driver::phase::Phase;
use crate::grpc::proto::control::Cause;

impl Runner {
    /// The code that goes with the reason.
    pub(crate) fn cause(&self) -> Cause {
        let driver = &self.driver;
        match driver.phase() {
            Phase::Conflict => driver.obstacle().map_or(Cause::Unspecified, of_obstacle),
            Phase::Rejected => driver.refusal().map_or(Cause::Unspecified, of_refusal),
            Phase::WaitingForKubelet if driver.waits_for_a_restart_of_the_kubelet() => {
                Cause::DirectoryReplaced
            }
            Phase::WaitingForDriver | Phase::Registered | Phase::Withdrawn
                if driver.is_silent() =>
            {
                self.silence
            }
            _ => Cause::Unspecified,
        }
    }
}

/// Of a driver that does not answer.
pub(super) fn of_trouble(trouble: &DriverError) -> Cause {
    match trouble {
        DriverError::Forbidden { .. } => Cause::SocketForbidden,
        DriverError::Exposed { .. } => Cause::Exposed,
        DriverError::Hidden { .. } => Cause::DirectoryForbidden,
        late if late.is_node_info_late() => Cause::NodeInfoLate,
        _ => Cause::Unspecified,
    }
}

fn of_obstacle(obstacle: &Obstacle) -> Cause {
    match obstacle {
        Obstacle::LiveOwner(_) => Cause::LiveOwner,
        Obstacle::NotASocket(_) => Cause::AlienFile,
        Obstacle::Contested { .. } | Obstacle::RemovedAtOnce => Cause::Contested,
        Obstacle::NameTaken(_) | Obstacle::NoDirectory(_) | Obstacle::Failed(_) => {
            Cause::Unspecified
        }
    }
}

fn of_refusal(refusal: Refusal) -> Cause {
    match refusal {
        Refusal::AlreadyRegistered => Cause::AlreadyRegistered,
        Refusal::TopologyCollision => Cause::TopologyCollision,
        Refusal::Other => Cause::Unspecified,
    }
}
