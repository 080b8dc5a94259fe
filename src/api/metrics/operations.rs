//! How long CSI calls take, under the metric name that every CSI sidecar uses.

use std::sync::{Mutex, PoisonError};

use prometheus::HistogramVec;
use tonic::Code;

use super::histogram;
use crate::csi::query::CsiCall;

const NAME: &str = "csi_sidecar_operations_seconds";
const HELP: &str =
    "Container Storage Interface operation duration with gRPC error code status total";
/// The buckets of csi-lib-utils, so that its dashboards fit.
const BUCKETS: [f64; 13] = [
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0,
];
const LABELS: [&str; 3] = ["driver_name", "method_name", "grpc_status_code"];
/// The name that csi-lib-utils uses while a driver has not reported its own.
const UNKNOWN: &str = "unknown-driver";
/// The calls that the registrar makes.
const METHODS: [&str; 3] = ["GetPluginInfo", "NodeGetInfo", "Probe"];
/// The last status code of gRPC; the first is zero.
const LAST_CODE: i32 = 16;

/// The durations of all calls to all drivers. A clone shares the same series.
#[derive(Clone, Debug)]
pub(crate) struct Operations(pub(super) HistogramVec);

/// The calls to one driver. Its series end when this is dropped, or when the driver reports another
/// name: a driver that keeps changing its name must not fill the memory.
#[derive(Debug)]
pub(crate) struct Account {
    operations: Operations,
    name: Mutex<Option<String>>,
}

impl Operations {
    pub(super) fn new() -> Operations {
        Operations(histogram(NAME, HELP, &BUCKETS, &LABELS))
    }

    pub(super) fn count(&self, driver: Option<&str>, call: CsiCall) {
        let driver = driver.unwrap_or(UNKNOWN);
        self.0
            .with_label_values(&[driver, &path(call.method), &word(call.code)])
            .observe(call.took.as_secs_f64());
    }

    /// Removes the series of a name that no driver has any more.
    fn forget(&self, driver: &str) {
        for method in METHODS.map(path) {
            for code in (0..=LAST_CODE).map(Code::from) {
                match self.0.remove_label_values(&[driver, &method, &word(code)]) {
                    // Most of these series never existed.
                    Ok(()) | Err(_) => {}
                }
            }
        }
    }
}

impl Account {
    pub(crate) fn new(operations: Operations) -> Account {
        Account {
            operations,
            name: Mutex::default(),
        }
    }

    /// `name` is the name that the driver reported, if it did.
    pub(crate) fn count(&self, name: Option<&str>, call: CsiCall) {
        if let Some(name) = name {
            let mut counted = self.name.lock().unwrap_or_else(PoisonError::into_inner);
            if counted.as_deref() != Some(name)
                && let Some(old) = counted.replace(name.to_owned())
            {
                self.operations.forget(&old);
            }
        }
        self.operations.count(name, call);
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let counted = self.name.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = counted {
            self.operations.forget(name);
        }
    }
}

/// The method as HTTP/2 has it.
fn path(method: &str) -> String {
    let service = match method {
        "NodeGetInfo" => "Node",
        _ => "Identity",
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
    use std::time::Duration;

    use prometheus::core::Collector;

    use super::*;

    #[test]
    fn a_name_that_no_driver_has_any_more_leaves_no_series_behind() {
        let operations = Operations::new();
        let account = Account::new(operations.clone());
        let calls = |name: &str| {
            let took = Duration::from_millis(1);
            let calls = METHODS.into_iter().cycle().take(30).enumerate();
            let calls = calls.map(|(number, method)| CsiCall {
                method,
                took,
                code: Code::from(i32::try_from(number).unwrap() % (LAST_CODE + 1)),
            });
            calls.for_each(|call| account.count(Some(name), call));
            operations.0.collect()[0].get_metric().len()
        };
        let series = calls("a.b");
        assert!(series > 0);
        assert_eq!(calls("c.d"), series, "the old name still has series");
        drop(account);
        assert!(operations.0.collect()[0].get_metric().is_empty());
    }
}
