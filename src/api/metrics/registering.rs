//! How long the kubelet takes from a driver's first answer to its own yes.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec};

const NAME: &str = "nsdr_driver_time_to_register_seconds";
const HELP: &str = "Time from when the driver answered, or stopped being registered while it answers, to when the kubelet registered it";
/// The kubelet looks once a second; after a refusal it is minutes.
const BUCKETS: [f64; 12] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// The durations, for each driver.
#[derive(Clone, Debug)]
pub(crate) struct Registering(HistogramVec);

impl Registering {
    pub(crate) fn new() -> Registering {
        let options = HistogramOpts::new(NAME, HELP).buckets(BUCKETS.to_vec());
        Registering(HistogramVec::new(options, &["driver"]).expect("name and label are valid"))
    }

    /// The driver is there to be registered: its series begin at zero.
    pub(crate) fn expect(&self, driver: &str) {
        self.0.with_label_values(&[driver]);
    }

    pub(crate) fn ended(&self, driver: &str, took: Duration) {
        self.0
            .with_label_values(&[driver])
            .observe(took.as_secs_f64());
    }

    /// The driver is no longer configured.
    pub(crate) fn forget(&self, driver: &str) {
        if let Err(error) = self.0.remove_label_values(&[driver]) {
            tracing::debug!(driver, %error, "the driver was never registered");
        }
    }

    pub(crate) fn collect(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }
}
