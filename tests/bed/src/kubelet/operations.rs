//! One operation at a time for each path, with the kubelet's back-off after failures.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use super::settings::Timing;

/// Kubernetes' goroutinemap with exponential back-off: the registration and de-registration of a path
/// share one entry, so the back-off of a failed registration also delays a de-registration.
pub(super) struct Operations {
    by_path: Rc<RefCell<BTreeMap<PathBuf, Operation>>>,
    running: JoinSet<()>,
    timing: Timing,
}

enum Operation {
    Running,
    BackingOff { delay: Duration, since: Instant },
}

/// The operation failed; the reason is on record already.
pub(super) struct Failed;

impl Operations {
    pub(super) fn new(timing: Timing) -> Self {
        Self {
            by_path: Rc::default(),
            running: JoinSet::new(),
            timing,
        }
    }

    /// Starts the operation, unless another runs on that path or the last failure is too recent.
    pub(super) fn start(
        &mut self,
        path: &Path,
        operation: impl Future<Output = Result<(), Failed>> + 'static,
    ) {
        while let Some(ended) = self.running.try_join_next() {
            ended.unwrap();
        }
        let delay = match self.by_path.borrow().get(path) {
            None => None,
            Some(Operation::Running) => return,
            Some(Operation::BackingOff { delay, since }) if since.elapsed() <= *delay => return,
            Some(Operation::BackingOff { delay, .. }) => Some(*delay),
        };
        let path = path.to_owned();
        let by_path = Rc::clone(&self.by_path);
        by_path
            .borrow_mut()
            .insert(path.clone(), Operation::Running);
        let timing = self.timing;
        self.running.spawn_local(async move {
            let result = operation.await;
            let mut by_path = by_path.borrow_mut();
            match result {
                Ok(()) => {
                    by_path.remove(&path);
                }
                Err(Failed) => {
                    let delay = match delay {
                        None => timing.backoff_initial,
                        Some(delay) => (delay * 2).min(timing.backoff_max),
                    };
                    let since = Instant::now();
                    by_path.insert(path, Operation::BackingOff { delay, since });
                }
            }
        });
    }
}
