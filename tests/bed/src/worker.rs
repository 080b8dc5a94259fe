//! A thread with its own single-threaded runtime; dropping its handle ends it and joins it.

use std::future::Future;
use std::thread;

use tokio::sync::oneshot;
use tokio::task::LocalSet;

pub(crate) struct Worker {
    // Dropped, not sent: the receiving end resolves either way.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Worker {
    /// Runs the future that `job` makes until it ends or the handle is dropped.
    ///
    /// The end of the runtime ends all tasks that the job spawned and closes their sockets, so nothing
    /// of the fake remains after a drop.
    pub(crate) fn spawn<F>(name: &str, job: impl FnOnce() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()>,
    {
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new()
            // The kernel keeps fifteen bytes of it.
            .name(name.to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap();
                let tasks = LocalSet::new();
                tasks.block_on(&runtime, async {
                    tokio::select! {
                        () = job() => {}
                        _ = stopped => {}
                    }
                });
            })
            .unwrap();
        Self {
            stop: Some(stop),
            thread: Some(thread),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !thread::panicking()
        {
            panic!("a fake of the test bed panicked; its message is above");
        }
    }
}
