//! How long the kubelet takes to register a driver that answers.

use std::time::Duration;

use prometheus::HistogramVec;

use super::histogram;

const NAME: &str = "nsdr_driver_time_to_register_seconds";
const HELP: &str = "Time from when the driver answered, or stopped being registered while it answers, to when the kubelet registered it";
/// The kubelet looks once a second; after a rejection it takes minutes.
const BUCKETS: [f64; 12] = [
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0,
];

/// The durations, for each driver. A clone shares the same series.
#[derive(Clone, Debug)]
pub(crate) struct Registering(pub(super) HistogramVec);

impl Registering {
    pub(super) fn new() -> Registering {
        Registering(histogram(NAME, HELP, &BUCKETS, &["driver"]))
    }

    /// Starts the series of a new driver at zero.
    pub(crate) fn expect(&self, driver: &str) {
        self.0.with_label_values(&[driver]);
    }

    pub(crate) fn ended(&self, driver: &str, took: Duration) {
        self.0
            .with_label_values(&[driver])
            .observe(took.as_secs_f64());
    }

    /// Removes the series of a driver that is no longer configured.
    pub(crate) fn forget(&self, driver: &str) {
        if let Err(error) = self.0.remove_label_values(&[driver]) {
            tracing::debug!(driver, %error, "the driver was never registered");
        }
    }
}
