//! Looks at the world when something changed, and tells the state machines what is there.

use std::collections::BTreeSet;

use super::reports::UNSEEN;
use super::runner::{link_place, socket_place};
use super::{DriverId, Subject, Supervisor};
use crate::disk::identity::Identity;
use crate::disk::layout::LinkAlias;
use crate::disk::name::DriverName;
use crate::disk::watch::WatchEvent;
use crate::driver::{Event, Record, Seen};

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
        let mut signs = false;
        let mut plugins = false;
        for subject in subjects {
            match subject {
                Subject::Driver(id) => {
                    if let Some(entry) = self.entries.get(&id) {
                        entry.contact.changed();
                    }
                    self.look_at_exposure(&id);
                }
                Subject::Socket(id) => self.look_at_socket(&id),
                Subject::Link(id) => self.look_at_link(&id),
                Subject::Sign(_) => signs = true,
                Subject::Plugins => plugins = true,
                Subject::Candidate(id) => self.look_at_candidate(&id),
            }
        }
        if signs {
            self.look_at_signs();
        }
        if plugins {
            self.look_at_plugins();
        }
    }

    fn look_at_everything(&mut self) {
        self.remove_hidden();
        self.look_at_kubelet_directory();
        self.look_at_layout();
        self.look_at_signs();
        let kubelet_there = self.kubelets.any();
        let ids: Vec<DriverId> = self.entries.keys().cloned().collect();
        for id in ids {
            self.look_at_socket(&id);
            self.look_at_link(&id);
            if let Some(entry) = self.entries.get(&id) {
                entry.contact.resync();
            }
            self.look_at_exposure(&id);
            self.tick_with(&id, kubelet_there);
        }
        self.look_at_plugins();
    }

    pub(super) fn look_at_signs(&mut self) {
        if self.kubelets.has_started() {
            tracing::info!("a kubelet has started");
            self.apply_to_all(&Event::KubeletStarted);
        }
    }

    /// A mount or a link has made one directory of two, or two of one: every driver begins anew where
    /// its socket and its link now belong.
    pub(super) fn look_at_layout(&mut self) {
        if self.layout.holds() {
            self.next_layout = None;
            return;
        }
        // Whoever swaps the directories all the time is not followed at full speed.
        let now = self.now();
        let at = *self
            .next_layout
            .get_or_insert_with(|| now + self.layout_pace.disturbed(now));
        if now < at {
            return;
        }
        self.next_layout = None;
        let layout = self.settings.layout();
        let number = if layout.one_directory() { "one" } else { "two" };
        tracing::warn!(
            registry_dir = %layout.registry_dir().display(),
            kubelet_dir = %layout.kubelet_dir().display(),
            "registry_dir and the kubelet's directory are {number} from now on; every driver is published anew"
        );
        let ids: Vec<DriverId> = self.entries.keys().cloned().collect();
        let mut records = Vec::new();
        for id in ids {
            let record = self.entries.get(&id).map(|entry| entry.driver.record());
            self.remove_by_the_kubelets_path(&id);
            self.dismiss(&id);
            // What somebody did by hand is undone by hand.
            records.push((id, record.and_then(Record::by_hand)));
        }
        self.layout = layout;
        for (id, record) in records {
            self.add(&id, record.as_ref());
        }
        self.changed = true;
        self.unsaved = true;
    }

    /// registry_dir may lead elsewhere by now, and the socket be left beside the link.
    fn remove_by_the_kubelets_path(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get(id).filter(|_| self.layout.one_directory()) else {
            return;
        };
        if let Some((name, identity)) = entry.driver.serves() {
            let (path, identity) = (self.layout.socket_beside_link(name), identity.clone());
            self.remove(path, &identity);
        }
    }

    /// A kubelet that runs while its directory is replaced watches the deleted one for good.
    fn look_at_kubelet_directory(&mut self) {
        if !self.kubelets.directory_was_replaced() {
            return;
        }
        self.unsaved = true;
        if self.kubelets.is_blind() && self.kubelets.any() {
            self.warn_of_blindness();
            let ids: Vec<DriverId> = self.entries.keys().cloned().collect();
            for id in ids {
                self.look_at_link(&id);
                self.apply(&id, Event::DirectoryReplaced);
            }
        } else {
            self.kubelets.sees_its_directory();
        }
    }

    pub(super) fn warn_of_blindness(&self) {
        tracing::warn!(
            directory = %self.layout.kubelet_dir().display(),
            "the kubelet's directory was deleted and made anew; the kubelet does not see it until it is restarted"
        );
    }

    pub(super) fn look_at_socket(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        let Some(name) = entry.driver.name() else {
            return;
        };
        let ours = entry.driver.serves().map(|(_, identity)| identity);
        let seen = match socket_place(&self.layout, name).intact(ours) {
            Some(identity) => Seen::Ours(identity),
            None => Seen::NotOurs,
        };
        self.apply(id, Event::SocketSeen(seen));
        // The link is another name of the socket that was there before.
        if self.links_are_sockets() {
            self.look_at_link(id);
        }
    }

    pub(super) fn look_at_link(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get(id) else {
            return;
        };
        let Some(name) = entry.driver.name() else {
            return;
        };
        let seen = match self.standing_link(name, entry.driver.slot()) {
            Some(identity) => Seen::Ours(identity),
            None => Seen::NotOurs,
        };
        let stood = entry.driver.links().is_some();
        if stood
            && seen == Seen::NotOurs
            && let Some(entry) = self.entries.get_mut(id)
        {
            entry.link_missing = true;
        }
        let symbolic = matches!(&seen, Seen::Ours(link) if link.target().is_some());
        self.apply(id, Event::LinkSeen(seen));
        if symbolic && self.links_are_sockets() {
            self.apply(id, Event::Reannounce(UNSEEN));
            self.tick(id);
        }
    }

    /// Each link is one more name of its socket, which needs the socket's own directory.
    pub(super) fn links_are_sockets(&self) -> bool {
        self.kubelets.want_sockets() && self.layout.one_directory()
    }

    /// The link at its place, if it is the one that we would make.
    pub(super) fn standing_link(&self, name: &DriverName, slot: LinkAlias) -> Option<Identity> {
        let place = link_place(&self.layout, name, slot, self.links_are_sockets());
        Identity::of(&place.path)
            .ok()
            .filter(|identity| place.is_ours(identity))
    }

    /// Watches the places of a driver's socket and link, which move with its name.
    pub(super) fn follow_places(&mut self, id: &DriverId) {
        let Some(entry) = self.entries.get_mut(id) else {
            return;
        };
        let name = entry.driver.name();
        let places = [
            (
                Subject::Socket(id.clone()),
                name.map(|name| self.layout.socket(name)),
                &mut entry.followed.socket,
            ),
            (
                Subject::Link(id.clone()),
                name.map(|name| self.layout.link(name, entry.driver.slot())),
                &mut entry.followed.link,
            ),
        ];
        let mut look = false;
        for (subject, path, followed) in places {
            if *followed == path {
                continue;
            }
            if let Some(old) = followed.take() {
                self.watcher.unfollow(&old, &subject);
            }
            if let Some(new) = &path {
                self.watcher.follow(new, &subject);
                look = true;
            }
            *followed = path;
        }
        // What happened between the last look and the watch would go unseen.
        if look {
            self.look_at_socket(id);
            self.look_at_link(id);
        }
    }
}
