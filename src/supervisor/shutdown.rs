//! The end of the daemon, and of a driver that is removed.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Runner, RunnerKey, Subject, Supervisor, Timer, Work};
use crate::config::OnStop;
use crate::disk::layout::Layout;
use crate::disk::removals::Removals;
use crate::disk::sweep::sweep_link;
use crate::kubelet::volumes::NodeVolumes;
use crate::os::text::enumerated;
use crate::systemd;
use crate::systemd::job::{self, Job};
use crate::systemd::journal::message_id;

/// How long kubelets that call at our end may take to say how it went, and to get their answer: a
/// kubelet that gets none takes the driver off the node.
const LAST_ANSWERS: Duration = Duration::from_millis(200);
/// Drivers in use that the last message names; the others are counted.
const MOST_NAMED: usize = 10;

impl Supervisor {
    pub(super) async fn end(mut self) {
        let on_stop = self.settings.service.on_stop;
        if self.hear_kubelets(withdraws(on_stop)).await {
            let volumes = match on_stop {
                OnStop::Withdraw => Arc::default(),
                OnStop::Auto | OnStop::Keep => {
                    self.notifier
                        .stopping("stopping; looking for volumes in use");
                    let reader = self.volumes.clone();
                    self.hear_kubelets(async move { reader.read().await }).await
                }
            };
            self.withdraw_unused(&volumes).await;
        } else {
            self.tell_end("stopping; the drivers stay registered");
            self.hear_last_calls().await;
        }
        self.state_file.changed();
        self.save();
        if let Some(runtime) = self.state_file.runtime() {
            runtime.leave();
        }
    }

    /// Withdraws the drivers whose volumes are not in use. The files of the others stay, and their kubelet
    /// notices nothing.
    async fn withdraw_unused(&mut self, volumes: &NodeVolumes) {
        let mut kept = Vec::new();
        for runner in self.runners.values_mut() {
            match runner.kept_by(volumes) {
                Some(kept_by) => kept.push(format!("{}: {kept_by}", runner.id)),
                None => runner.withdraw(&self.layout, &mut self.removals),
            }
        }
        if kept.is_empty() {
            return self.tell_end("stopping; the drivers are withdrawn");
        }
        kept.sort();
        let (number, kept) = (kept.len(), enumerated(kept.iter(), MOST_NAMED));
        self.notifier.stopping(&format!(
            "stopping; drivers that keep their links, because their volumes are in use: {number}"
        ));
        let message_id = message_id::KEPT_IN_USE;
        tracing::warn!(
            message_id,
            drivers = number,
            "stopping; drivers whose volumes are in use keep their links, the others are withdrawn: {kept}. When no volume is in use, start and stop the daemon once more"
        );
        self.hear_last_calls().await;
    }

    /// Another instance has our runtime directory. It serves the drivers through the links that we leave.
    pub(super) async fn make_way(mut self) {
        self.tell_end("stopping; another instance looks after the drivers");
        self.hear_last_calls().await;
    }

    fn tell_end(&self, words: &str) {
        self.notifier.stopping(words);
        tracing::info!("{words}");
    }

    /// Lets calls that are in progress end.
    async fn hear_last_calls(&mut self) {
        let has_sessions = |runner: &Runner| runner.endpoint.has_sessions();
        if self.runners.values().any(has_sessions) {
            self.hear_kubelets(sleep(LAST_ANSWERS)).await;
        }
    }

    /// Does the work, and meanwhile saves what kubelets say and answers them.
    async fn hear_kubelets<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                Some(input) = self.inputs.recv() => {
                    self.take_batch(input);
                    self.work();
                    self.save();
                    self.state_file.answer_kubelets();
                    self.answer_clients();
                }
                done = &mut work => return done,
            }
        }
    }

    /// Removes a driver that is no longer ours, with its files and all that was counted.
    pub(super) fn remove_driver(&mut self, key: RunnerKey) -> Option<Runner> {
        let mut runner = self.detach(key)?;
        runner.withdraw(&self.layout, &mut self.removals);
        self.metrics.registering.forget(&runner.id);
        Some(runner)
    }

    /// Ends all that runs for a driver, and leaves its files alone.
    pub(super) fn detach(&mut self, key: RunnerKey) -> Option<Runner> {
        let runner = self.runners.remove(&key)?;
        self.timers.set(Timer::Driver(key), None);
        self.timers.set(Timer::Departure(key), None);
        self.board.set(&runner.id, None);
        self.watcher
            .unfollow(&runner.settings.csi_socket, &Subject::Driver(key));
        for path in runner.followed.iter().flatten() {
            self.watcher.unfollow(path, &Subject::Files(key));
        }
        if let Some(name) = runner.driver.name() {
            self.names.release(name, key);
            self.queue.push(key, Work::NameFree(name.clone()));
        }
        Some(runner)
    }
}

impl Runner {
    /// Removes the link of an earlier run that no driver has taken up.
    pub(super) fn drop_unclaimed(&mut self, layout: &Layout) {
        if let Some(left) = self.unclaimed.take() {
            sweep_link(layout, &left.link);
        }
    }

    /// Removes the driver's link and socket, if they are ours.
    fn withdraw(&mut self, layout: &Layout, removals: &mut Removals) {
        self.drop_unclaimed(layout);
        if let Some((name, identity)) = self.driver.links() {
            removals.remove(layout.link(name), identity);
        }
        let socket = self.driver.serves().map(|(_, identity)| identity);
        self.files.remove_socket(socket, removals);
        self.driver.was_withdrawn();
    }
}

/// Whether links and sockets go when the daemon stops, and the kubelet de-registers. If they stay for the
/// next run, the kubelet notices nothing.
///
/// "auto" withdraws only when the daemon is not wanted any more: a stop of the unit, or a signal to a
/// process that systemd does not run. When systemd cannot be asked, nothing is taken away.
async fn withdraws(on_stop: OnStop) -> bool {
    match on_stop {
        OnStop::Withdraw => true,
        OnStop::Keep => false,
        OnStop::Auto if !systemd::runs_us() => true,
        OnStop::Auto => match job::current().await {
            Some(Job::Stop) => true,
            Some(Job::Other) | None => false,
        },
    }
}
