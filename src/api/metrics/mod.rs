//! What Prometheus is told: durations that are kept here, and the status put into its words.

mod exposition;
mod operations;
mod registering;

pub(crate) use self::exposition::CONTENT_TYPE;
pub(crate) use self::operations::{Account, Operation, Operations};
pub(crate) use self::registering::Registering;

use crate::grpc::proto::control::Status;

/// Everything that is measured. A clone measures into the same.
#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    pub(crate) operations: Operations,
    pub(crate) registering: Registering,
}

impl Metrics {
    pub(crate) fn new() -> Metrics {
        Metrics {
            operations: Operations::new(),
            registering: Registering::new(),
        }
    }

    /// All of it in Prometheus' text format 0.0.4.
    pub(crate) fn exposition(&self, status: &Status) -> Result<String, prometheus::Error> {
        let mut families = exposition::of_status(status)?;
        families.extend(self.registering.collect());
        families.extend(self.operations.collect());
        exposition::encode(families)
    }
}
