//! Makes equal situations of a world equal, so that the search meets each only once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Kubelet, LinkFile, NOW, World, Written, process};
use crate::disk::identity::Identity;
use crate::driver::Driver;
use crate::os::clock::Moment;

impl World {
    /// Equal situations become equal states: it is always now, and files are numbered from one.
    pub(in crate::driver::tests::model) fn normalise(&mut self) {
        // Time passes as it likes, so only the order of what is to come matters.
        let ours = self.us.iter().flatten().flat_map(Driver::times);
        let theirs = self.kubelet.iter().flat_map(Kubelet::times);
        let to_come: BTreeSet<Moment> = ours.chain(theirs).filter(|at| *at > self.now).collect();
        let time = |at: Moment| NOW + Duration::from_secs(to_come.range(..=at).count() as u64);
        let mut numbers = Numbers::default();
        if let Some(link) = self.disk.our_link() {
            numbers.note(link);
        }
        if let Some((socket, _)) = self.disk.socket {
            numbers.note(socket);
        }
        if let Some(kubelet) = &self.kubelet {
            kubelet.links().for_each(|link| numbers.note(link));
        }
        if let Some(LinkFile::Ours(link)) = &mut self.disk.link {
            *link = numbers.of(*link);
        }
        if let Some((socket, _)) = &mut self.disk.socket {
            *socket = numbers.of(*socket);
        }
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.normalise(|link| numbers.of(link), time);
        }
        for us in self.us.iter_mut().flatten() {
            us.normalise(
                |identity| Identity::numbered(numbers.of(identity.number())),
                time,
                |pid| self.pid == pid,
            );
        }
        for Written(record) in self.state.iter_mut().flatten() {
            if let Some(link) = &mut record.link {
                *link = Identity::numbered(numbers.of(link.number()));
            }
            if let Some(kubelet) = record
                .registration
                .as_mut()
                .and_then(|registered| registered.kubelet.as_mut())
            {
                *kubelet = process(u32::from(kubelet.pid == self.pid));
            }
        }
        self.held = self.held.take().map(|(pid, link, node, place)| {
            (u32::from(pid == self.pid), numbers.of(link), node, place)
        });
        self.news.ended = self
            .news
            .ended
            .iter()
            .map(|pid| u32::from(*pid == self.pid))
            .collect();
        self.pid = 1;
        self.now = NOW;
        self.next = numbers.next();
    }
}

/// Numbers files in the order in which they are found; what is not found any more is zero.
#[derive(Default)]
struct Numbers(BTreeMap<u64, u64>);

impl Numbers {
    fn note(&mut self, number: u64) {
        let next = self.0.len() as u64 + 1;
        self.0.entry(number).or_insert(next);
    }

    fn of(&self, number: u64) -> u64 {
        self.0.get(&number).copied().unwrap_or_default()
    }

    fn next(&self) -> u64 {
        self.0.len() as u64 + 1
    }
}
