//! The metrics for Prometheus: durations that are measured here, and figures from the status.

mod exposition;
mod operations;
mod registering;

pub(crate) use self::exposition::CONTENT_TYPE;
pub(crate) use self::operations::{Account, Operations};
pub(crate) use self::registering::Registering;

use prometheus::{HistogramOpts, HistogramVec, TextEncoder};

use crate::grpc::proto::control::Status;

/// All durations. A clone shares the same series.
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

    /// All metrics in Prometheus' text format 0.0.4.
    pub(crate) fn exposition(&self, status: &Status) -> Result<String, prometheus::Error> {
        let registry = exposition::of_status(status)?;
        registry.register(Box::new(self.registering.0.clone()))?;
        registry.register(Box::new(self.operations.0.clone()))?;
        TextEncoder::new().encode_to_string(&registry.gather())
    }
}

fn histogram(name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> HistogramVec {
    let options = HistogramOpts::new(name, help).buckets(buckets.to_vec());
    HistogramVec::new(options, labels).expect("name and labels are valid")
}
