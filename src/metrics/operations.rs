//! How long CSI calls take, under the name that every CSI sidecar uses for it.

use std::time::Duration;

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec};
use tonic::Code;

const NAME: &str = "csi_sidecar_operations_seconds";
const HELP: &str =
    "Container Storage Interface operation duration with gRPC error code status total";
/// Those of csi-lib-utils, so that its dashboards fit.
const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];
/// What csi-lib-utils writes while a driver has not told its name.
const UNKNOWN: &str = "unknown-driver";
/// The calls that we make.
const METHODS: [&str; 3] = ["GetPluginInfo", "NodeGetInfo", "Probe"];
/// The last code of gRPC; they are numbered from zero.
const LAST_CODE: i32 = 16;

/// One CSI call that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    /// Without its service, such as `NodeGetInfo`.
    pub(crate) method: &'static str,
    pub(crate) took: Duration,
    pub(crate) code: Code,
}

/// The durations of all calls to all drivers. A clone counts into the same.
#[derive(Clone, Debug)]
pub(crate) struct Operations(HistogramVec);

impl Operations {
    pub(crate) fn new() -> Operations {
        let options = HistogramOpts::new(NAME, HELP).buckets(BUCKETS.to_vec());
        let labels = ["driver_name", "method_name", "grpc_status_code"];
        Operations(HistogramVec::new(options, &labels).expect("name and labels are valid"))
    }

    pub(crate) fn ended(&self, driver: Option<&str>, operation: Operation) {
        let Operation { method, took, code } = operation;
        self.0
            .with_label_values(&[driver.unwrap_or(UNKNOWN), &path(method), &word(code)])
            .observe(took.as_secs_f64());
    }

    /// No driver has this name any more. One that comes back under ever new names must not fill
    /// memory with them.
    pub(crate) fn forget(&self, driver: &str) {
        for method in METHODS.map(path) {
            for code in (0..=LAST_CODE).map(Code::from) {
                match self.0.remove_label_values(&[driver, &method, &word(code)]) {
                    // Most of them have never been.
                    Ok(()) | Err(_) => {}
                }
            }
        }
    }

    pub(crate) fn collect(&self) -> Vec<MetricFamily> {
        self.0.collect()
    }
}

/// The method as HTTP/2 has it.
fn path(method: &str) -> String {
    let service = if method.starts_with("Node") {
        "Node"
    } else {
        "Identity"
    };
    format!("/csi.v1.{service}/{method}")
}

/// The code as grpc-go writes it.
fn word(code: Code) -> String {
    match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_has_any_more_leaves_nothing_behind() {
        let operations = Operations::new();
        for (number, method) in METHODS.into_iter().cycle().take(30).enumerate() {
            let code = Code::from(i32::try_from(number).unwrap() % (LAST_CODE + 1));
            let took = Duration::from_millis(1);
            operations.ended(Some("a.b"), Operation { method, took, code });
        }
        assert!(!operations.collect()[0].get_metric().is_empty());
        operations.forget("a.b");
        assert!(operations.collect()[0].get_metric().is_empty());
    }
}
