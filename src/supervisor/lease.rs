//! The right of a task beside the supervisor to report on a driver, for as long as the driver has it.
//!
//! A report waits in a queue. By the time it is taken in, a reload may have given the driver another
//! contact, at another socket, or the id to another driver. A report therefore does not name a driver:
//! it holds a lease, which names the driver only while what made the report still works for it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::DriverId;

/// Something that works for a driver and reports on it. The lease ends when this is dropped.
pub(crate) struct Leased<T> {
    work: T,
    driver: Arc<Mutex<DriverId>>,
}

/// What a report has in the place of a driver's id.
#[derive(Clone)]
pub(crate) struct Lease(Weak<Mutex<DriverId>>);

impl<T> Leased<T> {
    /// Starts the work for a driver, with the lease for its reports.
    pub(super) fn start(id: &DriverId, start: impl FnOnce(Lease) -> T) -> Leased<T> {
        let driver = Arc::new(Mutex::new(id.clone()));
        Leased {
            work: start(Lease(Arc::downgrade(&driver))),
            driver,
        }
    }

    /// The driver has another id from now on. Reports that are on their way are of that one.
    pub(super) fn rename(&self, id: &DriverId) {
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        driver.clone_from(id);
    }
}

impl<T> Deref for Leased<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.work
    }
}

impl Lease {
    /// The driver, unless the work for it has ended.
    pub(super) fn driver(&self) -> Option<DriverId> {
        let driver = self.0.upgrade()?;
        let driver = driver.lock().unwrap_or_else(PoisonError::into_inner);
        Some(driver.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_names_the_driver_as_it_is_called_now_and_ends_with_the_work() {
        let leased = Leased::start(&"a".into(), |lease| lease);
        let lease = leased.clone();
        assert_eq!(lease.driver().as_deref(), Some("a"));
        leased.rename(&"b".into());
        assert_eq!(lease.driver().as_deref(), Some("b"));
        drop(leased);
        assert_eq!(lease.driver(), None);
    }
}
