//! Looks at the disk when something changed, and tells the state machines what is there.

use std::collections::BTreeSet;

use super::files::{existing_link, in_use, link_place, socket_place};
use super::saved_state::Origin;
use super::{Runner, RunnerKey, Subject, Supervisor, Work};
use crate::csi::trust::Exposure;
use crate::disk::identity::Identity;
use crate::disk::reach::Reach;
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
        for subject in subjects {
            match subject {
                Subject::Driver(key) => {
                    if let Some(runner) = self.runners.get_mut(&key) {
                        runner.monitor.changed();
                        runner.look_at_exposure(&self.reach);
                    }
                }
                Subject::Files(key) => self.queue.push(key, Work::Look),
                Subject::StartSocket(_) => self.look_at_start_sockets(),
                Subject::Plugins => self.look_at_plugins(),
                Subject::Candidate(id) if self.key_of(&id).is_some() => {}
                Subject::Candidate(id) => self.look_at_candidate(&id),
            }
        }
    }

    fn look_at_everything(&mut self) {
        self.removals
            .remove_uncovered(in_use(&self.runners, &self.layout));
        self.look_at_kubelet_directory();
        self.look_at_start_sockets();
        for (key, runner) in &mut self.runners {
            self.queue.push(*key, Work::Look);
            self.queue.push(*key, Work::Tick);
            runner.monitor.resync();
            runner.look_at_exposure(&self.reach);
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
            for key in self.keys() {
                self.queue.push(key, Work::Look);
                self.push(key, Event::DirectoryReplaced);
            }
        } else {
            self.kubelets.sees_its_directory();
        }
    }

    pub(super) fn warn_of_blindness(&self) {
        tracing::warn!(
            directory = %self.layout.plugins_registry().display(),
            "the kubelet's directory was deleted and recreated; the kubelet does not see it until it is restarted"
        );
    }

    /// Looks at a driver's socket and then at its link.
    pub(super) fn look_at_files(&mut self, key: RunnerKey) {
        if let Some(runner) = self.runners.get(&key)
            && let Some(name) = runner.driver.name()
        {
            let ours = runner.driver.serves().map(|(_, identity)| identity);
            let socket = socket_place(&self.layout, name).intact(ours);
            self.step(key, Event::SocketSeen(seen(socket)));
        }
        if let Some(runner) = self.runners.get_mut(&key)
            && let Some(name) = runner.driver.name()
        {
            let link = existing_link(&link_place(&self.layout, name));
            runner.files.link_missing |= link.is_none() && runner.driver.links().is_some();
            self.step(key, Event::LinkSeen(seen(link)));
        }
    }

    /// The note for the status.
    pub(super) fn exposed(&self) -> Option<String> {
        let exposed = self.runners.values();
        let exposed = exposed.filter_map(|runner| Some((&runner.id, runner.exposure.as_ref()?)));
        let count = exposed.clone().count();
        let (id, exposure) = exposed.min_by_key(|(id, _)| *id)?;
        let fix = exposure.fix_for_declared();
        let more = match count - 1 {
            0 => String::new(),
            more => format!("; and {more} more drivers"),
        };
        Some(format!("{id}: {exposure}: {fix}{more}"))
    }
}

impl Runner {
    /// Looks at the way to the socket of a driver that the configuration names. The monitor refuses a
    /// driver that was discovered in such a place.
    pub(super) fn look_at_exposure(&mut self, reach: &Reach) {
        let (id, socket) = (&self.id, &self.settings.csi_socket);
        // The main loop does not wait for a file system that another machine or program serves.
        let now = if self.origin == Origin::Discovery || reach.may_hang(socket) {
            None
        } else {
            // A path that cannot be looked at cannot be connected to either, and that says why.
            Exposure::of(socket).unwrap_or(None)
        };
        if now == self.exposure {
            return;
        }
        if let Some(exposure) = &now {
            let fix = exposure.fix_for_declared();
            tracing::warn!(driver = %id, csi_socket = %socket.display(), "{id}: {exposure}, and could put a driver of their own in its place: {fix}");
        }
        self.exposure = now;
    }
}

fn seen(ours: Option<Identity>) -> Seen {
    ours.map_or(Seen::NotOurs, Seen::Ours)
}
