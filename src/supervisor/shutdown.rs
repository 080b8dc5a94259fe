//! How it ends: for one driver that is removed, and for all of them when we stop.

use std::future::Future;
use std::time::Duration;

use tokio::time::sleep;

use super::{DriverId, Subject, Supervisor};
use crate::config::OnStop;
use crate::systemd;
use crate::systemd::job::{self, Job};

use crate::kubelet::known::KnownKubelets;

/// How long those who call at our end may take to say how it went, and to get their answer: a
/// kubelet that gets none takes the driver off the node.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// What becomes of links and sockets when we stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// They go, and the kubelet de-registers.
    Withdraw,
    /// They stay for our successor; the kubelet notices nothing.
    Keep,
}

impl Ending {
    /// "auto" withdraws only when somebody wants us gone: a stop of the unit, or a signal to a
    /// process that no systemd looks after. When systemd cannot be asked, nothing is taken away.
    async fn choose(on_stop: OnStop) -> Ending {
        match on_stop {
            OnStop::Withdraw => Ending::Withdraw,
            OnStop::Keep => Ending::Keep,
            OnStop::Auto if !systemd::runs_us() => Ending::Withdraw,
            OnStop::Auto => match job::current().await {
                Some(Job::Stop) => Ending::Withdraw,
                Some(Job::Other) | None => Ending::Keep,
            },
        }
    }
}

impl Supervisor {
    pub(super) async fn end(mut self) {
        let on_stop = self.settings.service.on_stop;
        let ending = self.hear_kubelets(Ending::choose(on_stop)).await;
        let word = match ending {
            Ending::Withdraw => "stopping; the drivers are withdrawn",
            Ending::Keep => "stopping; the drivers stay registered",
        };
        self.notifier.stopping(word);
        tracing::info!("{word}");
        match ending {
            Ending::Withdraw => {
                let ids: Vec<DriverId> = self.entries.keys().cloned().collect();
                for id in ids {
                    self.withdraw(&id);
                }
            }
            Ending::Keep => self.hear_last_calls().await,
        }
        self.save();
        if let Some(runtime) = &self.runtime {
            runtime.leave();
        }
    }

    /// Lets those who are calling finish.
    pub(super) async fn hear_last_calls(&mut self) {
        let mut entries = self.entries.values();
        if entries.any(|entry| entry.endpoint.has_visitors()) {
            self.hear_kubelets(sleep(LAST_ANSWERS)).await;
        }
    }

    /// Does the work, and meanwhile writes down what kubelets say and answers them.
    pub(super) async fn hear_kubelets<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(report) = self.reports.recv() => {
                    self.take_batch(report);
                    self.write_down();
                    self.answer_clients();
                }
                done = &mut work => return done,
            }
        }
    }

    /// Removes a driver's link and socket, if they are ours.
    pub(super) fn withdraw(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let link = entry.driver.links().map(|(name, slot, identity)| {
            let path = self.layout.link(name, slot);
            (path, identity.clone())
        });
        let socket = entry
            .driver
            .serves()
            .map(|(name, identity)| (self.layout.socket(name), identity.clone()));
        entry.driver.was_withdrawn();
        entry.service = None;
        for (path, identity) in link.into_iter().chain(socket) {
            self.remove(path, &identity);
        }
    }

    /// A driver is no longer ours: all that stands for it goes, and all that was counted.
    pub(super) fn dismiss(&mut self, id: &DriverId) {
        self.withdraw(id);
        self.forget(id);
        self.metrics.registering.forget(id);
    }

    /// Ends all that runs for a driver, and leaves what stands on disk alone.
    pub(super) fn forget(&mut self, id: &DriverId) {
        drop(self.unfollow(id));
        self.names.retain(|_, holder| holder != id);
    }

    pub(super) fn move_to_new_directories(&mut self) {
        self.unwatch_signs();
        self.layout = self.settings.layout();
        self.kubelets = KnownKubelets::new(self.settings.kubelet_root(), self.layout.kubelet_dir());
        self.watch_signs();
    }

    /// StartSockets of a kubelet are elsewhere; what it was told and told us still holds.
    pub(super) fn look_below_another_root(&mut self) {
        self.unwatch_signs();
        self.kubelets.look_below(self.settings.kubelet_root());
        self.watch_signs();
    }

    fn unwatch_signs(&mut self) {
        for (number, path) in self.kubelets.signs().into_iter().enumerate() {
            self.watcher.unfollow(&path, &Subject::Sign(number));
        }
    }
}
