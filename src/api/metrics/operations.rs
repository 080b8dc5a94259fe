//! How long CSI calls take, under the name that every CSI sidecar uses for it.

use std::sync::{Mutex, PoisonError};
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

    pub(super) fn ended(&self, driver: Option<&str>, operation: Operation) {
        let Operation { method, took, code } = operation;
        self.0
            .with_label_values(&[driver.unwrap_or(UNKNOWN), &path(method), &word(code)])
            .observe(took.as_secs_f64());
    }

    /// No driver has this name any more.
    fn forget(&self, driver: &str) {
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

/// The calls to one driver. What is counted goes when this does, or when the driver says another
/// name: one with ever new names must not fill memory with them.
#[derive(Debug)]
pub(crate) struct Account {
    operations: Operations,
    name: Mutex<Option<String>>,
}

impl Account {
    pub(crate) fn new(operations: Operations) -> Account {
        Account {
            operations,
            name: Mutex::default(),
        }
    }

    /// `name` is what the driver said in these calls, if anything.
    pub(crate) fn ended(
        &self,
        name: Option<&str>,
        operations: impl IntoIterator<Item = Operation>,
    ) {
        if let Some(name) = name {
            let mut counted = self.name.lock().unwrap_or_else(PoisonError::into_inner);
            if counted.as_deref() != Some(name)
                && let Some(old) = counted.replace(name.to_owned())
            {
                self.operations.forget(&old);
            }
        }
        for operation in operations {
            self.operations.ended(name, operation);
        }
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
        let account = Account::new(operations.clone());
        let calls = |name: &str| {
            let took = Duration::from_millis(1);
            let calls = METHODS.into_iter().cycle().take(30).enumerate();
            let calls = calls.map(|(number, method)| Operation {
                method,
                took,
                code: Code::from(i32::try_from(number).unwrap() % (LAST_CODE + 1)),
            });
            account.ended(Some(name), calls);
            operations.collect()[0].get_metric().len()
        };
        let series = calls("a.b");
        assert!(series > 0);
        assert_eq!(calls("c.d"), series, "the old name is still there");
        drop(account);
        assert!(operations.collect()[0].get_metric().is_empty());
    }
}
