//! Looks at the disk when something changed, and tells the state machines what is there.

use std::collections::BTreeSet;

use super::files::{are_links_sockets, link_place, socket_place};
use super::inputs::UNSEEN;
use super::{Job, RunnerKey, Subject, Supervisor};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::disk::watch::WatchEvent;
use crate::driver::{Event, Seen};

impl Supervisor {
    pub(super) fn look_at(&mut self, change: WatchEvent<Subject>) {
        match change {
            WatchEvent::Subjects(subjects) => self.look_at_subjects(subjects),
            WatchEvent::Everything => self.look_at_everything(),
        }
    }

    fn look_at_subjects(&mut self, subjects: BTreeSet<Subject>) {
        self.look_at_kubelet_directory();
        self.look_at_layout();
        let (mut start_sockets, mut plugins) = (false, false);
        for subject in subjects {
            match subject {
                Subject::Driver(key) => {
                    if let Some(runner) = self.runners.get(key) {
                        runner.monitor.changed();
                    }
                    self.look_at_exposure(key);
                }
                Subject::Socket(key) => self.queue.push(key, Job::LookAtSocket),
                Subject::Link(key) => self.queue.push(key, Job::LookAtLink),
                Subject::StartSocket(_) => start_sockets = true,
                Subject::Plugins => plugins = true,
                Subject::Candidate(id) => self.look_at_candidate(&id),
            }
        }
        if start_sockets {
            self.look_at_start_sockets();
        }
        if plugins {
            self.look_at_plugins();
        }
    }

    fn look_at_everything(&mut self) {
        self.remove_uncovered();
        self.look_at_kubelet_directory();
        self.look_at_layout();
        self.look_at_start_sockets();
        for key in self.runners.keys() {
            self.queue.push(key, Job::LookAtSocket);
            self.queue.push(key, Job::LookAtLink);
            self.queue.push(key, Job::Tick);
            if let Some(runner) = self.runners.get(key) {
                runner.monitor.resync();
            }
            self.look_at_exposure(key);
        }
        self.look_at_plugins();
    }

    pub(super) fn look_at_start_sockets(&mut self) {
        if self.kubelets.has_started() {
            tracing::info!("a kubelet has started");
            self.push_to_all(&Event::KubeletStarted);
        }
    }

    /// A kubelet that runs while its directory is replaced watches the deleted directory for good.
    fn look_at_kubelet_directory(&mut self) {
        if !self.kubelets.directory_was_replaced() {
            return;
        }
        self.state_file.changed();
        if self.kubelets.is_blind() && self.kubelets.any() {
            self.warn_of_blindness();
            for key in self.runners.keys() {
                self.queue.push(key, Job::LookAtLink);
                self.push(key, Event::DirectoryReplaced);
            }
        } else {
            self.kubelets.sees_its_directory();
        }
    }

    pub(super) fn warn_of_blindness(&self) {
        tracing::warn!(
            directory = %self.places.layout.kubelet_dir().display(),
            "the kubelet's directory was deleted and made anew; the kubelet does not see it until it is restarted"
        );
    }

    pub(super) fn look_at_socket(&mut self, key: RunnerKey) {
        let Some(driver) = self.runners.get(key).map(|runner| &runner.driver) else {
            return;
        };
        let Some(name) = driver.name() else {
            return;
        };
        let ours = driver.serves().map(|(_, identity)| identity);
        let seen = socket_place(&self.places.layout, name).intact(ours);
        let seen = seen.map_or(Seen::NotOurs, Seen::Ours);
        self.step(key, Event::SocketSeen(seen));
        // The link is another name of the socket that was there before.
        if self.are_links_sockets() {
            self.queue.push(key, Job::LookAtLink);
        }
    }

    pub(super) fn look_at_link(&mut self, key: RunnerKey) {
        let Some(runner) = self.runners.get(key) else {
            return;
        };
        let Some(name) = runner.driver.name() else {
            return;
        };
        let link = self.existing_link(name, runner.driver.slot());
        let is_symbolic = link.as_ref().is_some_and(|link| link.target().is_some());
        let seen = link.map_or(Seen::NotOurs, Seen::Ours);
        if let Some(runner) = self.runners.get_mut(key)
            && seen == Seen::NotOurs
        {
            runner.files.link_missing |= runner.driver.links().is_some();
        }
        self.step(key, Event::LinkSeen(seen));
        if is_symbolic && self.are_links_sockets() {
            self.push(key, Event::Reannounce(UNSEEN));
            self.queue.push(key, Job::Tick);
        }
    }

    pub(super) fn are_links_sockets(&self) -> bool {
        are_links_sockets(&self.kubelets, &self.places.layout)
    }

    /// The link at its place, if it is the link that we would make.
    pub(super) fn existing_link(&self, name: &DriverName, slot: LinkAlias) -> Option<Identity> {
        let place = link_place(&self.kubelets, &self.places.layout, name, slot);
        let found = Identity::of(&place.path).ok();
        found.filter(|identity| place.is_ours(identity))
    }

    /// Tries again to remove files of ours. A driver that came back under its old name uses its file
    /// again.
    pub(super) fn retry_removals(&mut self) {
        let (runners, layout) = (&self.runners, &self.places.layout);
        self.removals.retry(|path| runners.use_path(layout, path));
    }

    fn remove_uncovered(&mut self) {
        let (runners, layout) = (&self.runners, &self.places.layout);
        self.removals
            .remove_uncovered(|path| runners.use_path(layout, path));
    }
}
