//! One turn of the main loop: works until nothing is left to do, then tells the outcome.

use std::collections::{BTreeSet, VecDeque};

use tokio::time::Instant;

use super::files::Disk;
use super::volume_looks::Asking;
use super::{POLL, Runner, RunnerKey, Subject, Supervisor, Timer};
use crate::disk::name::DriverName;
use crate::driver::{Afterwards, Calling, Event, step};
use crate::os::clock::Moment;

/// Work on one driver.
#[derive(Debug)]
pub(super) enum Work {
    Event(Event),
    /// Looks whether socket and link are still ours.
    Look,
    Tick,
    /// Another driver wants the name that this driver serves under.
    NameWanted(RunnerKey),
    /// The driver does not serve under this name any more, or may let another driver have it.
    NameFree(DriverName),
}

/// What is still to be done in this turn.
#[derive(Default)]
pub(super) struct WorkQueue {
    waiting: VecDeque<(RunnerKey, Work)>,
    /// Drivers that may have changed.
    dirty: BTreeSet<RunnerKey>,
    /// Whether a kubelet runs: a look at /proc, which serves all drivers that are ticked together.
    kubelet_runs: Option<bool>,
}

impl WorkQueue {
    pub(super) fn push(&mut self, key: RunnerKey, work: Work) {
        self.waiting.push_back((key, work));
    }

    pub(super) fn mark(&mut self, key: RunnerKey) {
        self.dirty.insert(key);
    }
}

impl Supervisor {
    pub(super) fn push(&mut self, key: RunnerKey, event: Event) {
        self.queue.push(key, Work::Event(event));
    }

    pub(super) fn push_to_all(&mut self, event: &Event) {
        for key in self.keys() {
            self.push(key, event.clone());
        }
    }

    /// Does all work that waits, and the work that this gives rise to.
    pub(super) fn do_work(&mut self) {
        while let Some((key, work)) = self.queue.waiting.pop_front() {
            self.perform(key, work);
        }
        self.queue.kubelet_runs = None;
    }

    /// Does all work, and then refreshes each driver that has changed.
    pub(super) fn work(&mut self) {
        self.do_work();
        while let Some(key) = self.queue.dirty.pop_first() {
            self.refresh(key);
            self.do_work();
        }
    }

    fn perform(&mut self, key: RunnerKey, work: Work) {
        match work {
            Work::Event(event) => self.step(key, event),
            Work::Look => self.look_at_files(key),
            Work::Tick => self.tick(key),
            Work::NameWanted(by) => self.name_wanted(key, by),
            Work::NameFree(name) => self.offer_name(&name),
        }
    }

    fn tick(&mut self, key: RunnerKey) {
        let Some(runner) = self.runners.get(&key) else {
            return;
        };
        let calling = self.calling(runner);
        let kubelets = &self.kubelets;
        let kubelet_there = *self
            .queue
            .kubelet_runs
            .get_or_insert_with(|| kubelets.any());
        let ticked = Event::Ticked {
            kubelet_there,
            calling,
        };
        self.step(key, ticked);
    }

    /// Which driver a kubelet calls now.
    pub(super) fn calling(&self, runner: &Runner) -> Calling {
        let calls_apart = |pid| self.kubelets.calls_apart(pid);
        if runner.endpoint.is_calling(calls_apart) {
            Calling::This
        } else if self.kubelets.is_busy(self.now()) {
            Calling::Others
        } else {
            Calling::Nobody
        }
    }

    /// Applies an event to one driver and carries out what follows for its files.
    pub(super) fn step(&mut self, key: RunnerKey, event: Event) {
        let now = self.now();
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        let is_registration = matches!(event, Event::KubeletRegistered { .. });
        let before = (runner.driver.phase(), runner.driver.is_silent());
        let mut disk = Disk {
            key,
            id: &runner.id,
            take_over: runner.settings.on_live_owner.takes_over(),
            endpoint: &runner.endpoint,
            files: &mut runner.files,
            counts: &mut runner.counts,
            layout: &self.layout,
            names: &mut self.names,
            removals: &mut self.removals,
            queue: &mut self.queue,
            sender: &self.sender,
        };
        let Afterwards { save, ask_volumes } = step(&mut runner.driver, event, now, &mut disk);
        if save {
            self.state_file.changed();
        }
        let driver = &runner.driver;
        // Through the link as it is now, and so through the directory as it is now.
        if is_registration && driver.is_registered() {
            self.kubelets.sees_its_directory();
        }
        if (driver.phase(), driver.is_silent()) != before
            && let Some((name, _)) = driver.serves()
        {
            self.queue.push(key, Work::NameFree(name.clone()));
        }
        self.queue.mark(key);
        if ask_volumes {
            self.look_at_volumes(Asking::Driver(key));
        }
    }

    /// Brings the tasks around a driver, and the snapshot, up to date with its state.
    fn refresh(&mut self, key: RunnerKey) {
        let Some(runner) = self.runners.get_mut(&key) else {
            return;
        };
        runner.endpoint.offer(runner.plugin_info());
        let link = runner.driver.links();
        runner.endpoint.link(link.map(|(_, link)| link.clone()));
        runner.files.retired.retain(|task| !task.is_finished());
        runner.follow_trouble();
        runner.forget_old_word();
        if let Some(took) = runner.time_to_register() {
            self.metrics.registering.ended(&runner.id, took);
        }
        let deadline = runner.driver.deadline();
        self.timers.set(Timer::Driver(key), deadline);
        if runner.publish(&self.layout) {
            self.board.set(&runner.id, Some(runner.published.clone()));
            if runner.keep_shown() {
                self.state_file.changed();
            }
        }
        // The places of socket and link move with the name.
        let places = runner.places(&self.layout);
        if runner.followed != places {
            for old in runner.followed.iter().flatten() {
                self.watcher.unfollow(old, &Subject::Files(key));
            }
            for new in places.iter().flatten() {
                self.watcher.follow(new, &Subject::Files(key));
            }
            runner.followed = places;
            // What happened between the last look and the watch would go unseen.
            self.queue.push(key, Work::Look);
        }
        self.check_departure(key);
    }

    /// Works off what the turn gave rise to and tells the outcome. Returns when to wake up.
    pub(super) fn finish_turn(&mut self) -> Instant {
        self.work();
        self.save();
        self.state_file.answer_kubelets();
        if self.is_overdue() {
            let soon = self.now() + POLL;
            self.timers.hasten(Timer::Resync, soon);
        }
        let is_ready_now = self.becomes_ready();
        let has_changed = self.board.publish(self.daemon(), self.wake_time());
        self.tell_systemd(is_ready_now, has_changed);
        self.answer_clients();
        self.wake_time()
    }

    fn wake_time(&self) -> Instant {
        let due = self.timers.next().unwrap_or_default();
        self.started + (due - Moment::default())
    }

    /// After the snapshot, so that a client finds the effect of its command there.
    pub(super) fn answer_clients(&mut self) {
        for (reply, outcome) in self.outcomes.drain(..) {
            if reply.send(outcome).is_err() {
                tracing::debug!("a client left before it had its answer");
            }
        }
    }
}
