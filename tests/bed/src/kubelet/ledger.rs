//! Everything that a kubelet saw and did, in order, and the queries of tests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::record::{Event, Object, Record};

/// The records of one kubelet across its restarts, and the present API objects.
pub struct Ledger {
    /// CLOCK_MONOTONIC at the first start: one clock for the test and the kubelet's process.
    origin: Duration,
    pages: Mutex<Pages>,
    changed: Condvar,
    tap: Option<Tap>,
}

/// Gets every entry, in order.
pub(super) type Tap = Box<dyn Fn(Entry) + Send + Sync>;

#[derive(Default)]
struct Pages {
    records: Vec<Record>,
    cluster: Cluster,
    generation: u32,
}

/// A report of a kubelet in another process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Entry {
    Record(Record),
    Cluster(Cluster),
}

/// A position in the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mark(usize);

/// Counts of the events since a mark.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Drivers registered.
    pub registrations: usize,
    /// Registered drivers that were de-registered; the de-registration of a failed one does not count.
    pub deregistrations: usize,
    /// Writes to CSINode.
    pub csi_node_writes: usize,
    /// Patches of Node.
    pub node_patches: usize,
    /// Notify(false) sent.
    pub rejections: usize,
    /// GetInfo answered.
    pub asked: usize,
    /// Dials that no process accepted.
    pub dial_failures: usize,
    /// Error lines in the kubelet's log.
    pub error_lines: usize,
}

impl Counts {
    /// Writes to the API server of either kind.
    pub fn api_writes(&self) -> usize {
        self.csi_node_writes + self.node_patches
    }
}

impl Ledger {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self::open(now(), Pages::default(), None))
    }

    /// The ledger of a kubelet that continues where another process ended.
    pub(super) fn continued(
        origin: Duration,
        generation: u32,
        cluster: Cluster,
        tap: Tap,
    ) -> Arc<Self> {
        let pages = Pages {
            generation,
            cluster,
            ..Pages::default()
        };
        Arc::new(Self::open(origin, pages, Some(tap)))
    }

    fn open(origin: Duration, pages: Pages, tap: Option<Tap>) -> Self {
        Self {
            origin,
            pages: Mutex::new(pages),
            changed: Condvar::new(),
            tap,
        }
    }

    pub(super) fn origin(&self) -> Duration {
        self.origin
    }

    /// The number of the kubelet's present start, from 1; 0 before the first.
    pub fn generation(&self) -> u32 {
        self.pages().generation
    }

    /// All records so far.
    pub fn records(&self) -> Vec<Record> {
        self.pages().records.clone()
    }

    /// The present position, for later queries.
    pub fn mark(&self) -> Mark {
        Mark(self.pages().records.len())
    }

    /// Records after the mark.
    pub fn since(&self, mark: Mark) -> Vec<Record> {
        self.pages().records[mark.0..].to_vec()
    }

    /// The events after the mark for which `wanted` is true.
    pub fn events_since(&self, mark: Mark, wanted: impl Fn(&Event) -> bool) -> Vec<Event> {
        let events = self.since(mark).into_iter().map(|record| record.event);
        events.filter(|event| wanted(event)).collect()
    }

    /// Counts of the events after the mark.
    pub fn counts_since(&self, mark: Mark) -> Counts {
        let mut counts = Counts::default();
        for record in self.since(mark) {
            let count = match record.event {
                Event::Register { .. } => &mut counts.registrations,
                Event::Deregister {
                    registered: true, ..
                } => &mut counts.deregistrations,
                Event::ApiWrite { object, .. } => match object {
                    Object::CsiNode => &mut counts.csi_node_writes,
                    Object::Node => &mut counts.node_patches,
                },
                Event::Rejected { .. } => &mut counts.rejections,
                Event::Asked { .. } => &mut counts.asked,
                Event::DialFailed { .. } => &mut counts.dial_failures,
                Event::ErrorLine { .. } => &mut counts.error_lines,
                _ => continue,
            };
            *count += 1;
        }
        counts
    }

    /// Names and endpoints of the registered drivers. A driver is registered from its
    /// [`Event::Register`] on, a little before the registrar gets Notify.
    pub fn registered(&self) -> BTreeMap<String, String> {
        let books = Books::read(&self.pages().records);
        books.registered
    }

    /// The present API objects.
    pub fn cluster(&self) -> Cluster {
        self.pages().cluster.clone()
    }

    /// Waits for a record after the mark; panics with the records since the mark when none comes.
    #[track_caller]
    pub fn wait_for(
        &self,
        what: &str,
        mark: Mark,
        deadline: Duration,
        wanted: impl Fn(&Event) -> bool,
    ) -> Record {
        let found = self.wait(deadline, |pages| {
            let new = &pages.records[mark.0..];
            new.iter().find(|record| wanted(&record.event)).cloned()
        });
        found.unwrap_or_else(|| {
            panic!(
                "the kubelet did not within {deadline:?}: {what}; it did: {:#?}",
                self.since(mark)
            )
        })
    }

    /// Waits until the driver is registered and Notify is over, and returns its endpoint.
    ///
    /// Before the end of Notify, a fault of the registrar could still undo the registration, and a test
    /// could not tell that from its own next fault.
    #[track_caller]
    pub fn wait_registered(&self, name: &str, deadline: Duration) -> String {
        let endpoint = self.wait(deadline, |pages| {
            let books = Books::read(&pages.records);
            books
                .told
                .contains(name)
                .then(|| books.registered[name].clone())
        });
        endpoint.unwrap_or_else(|| {
            panic!(
                "{name} not registered within {deadline:?}: {:#?}",
                self.records()
            )
        })
    }

    /// Waits until no driver of that name is registered.
    #[track_caller]
    pub fn wait_deregistered(&self, name: &str, deadline: Duration) {
        let gone = self.wait(deadline, |pages| {
            let books = Books::read(&pages.records);
            (!books.registered.contains_key(name)).then_some(())
        });
        if gone.is_none() {
            panic!(
                "{name} still registered after {deadline:?}: {:#?}",
                self.records()
            );
        }
    }

    fn wait<T>(
        &self,
        deadline: Duration,
        mut look: impl FnMut(&mut Pages) -> Option<T>,
    ) -> Option<T> {
        let end = Instant::now() + deadline;
        let mut pages = self.pages();
        loop {
            if let Some(found) = look(&mut pages) {
                return Some(found);
            }
            let left = end.checked_duration_since(Instant::now())?;
            pages = self.changed.wait_timeout(pages, left).unwrap().0;
        }
    }

    pub(super) fn begin_generation(&self) {
        self.pages().generation += 1;
    }

    pub(super) fn write(&self, event: Event) {
        let mut pages = self.pages();
        let record = Record {
            at: now() - self.origin,
            generation: pages.generation,
            event,
        };
        self.enter(&mut pages, Entry::Record(record));
    }

    /// Changes the API objects, and records the write if `change` returns true.
    pub(super) fn write_api<E>(
        &self,
        object: Object,
        driver: &str,
        change: impl FnOnce(&mut Cluster) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut pages = self.pages();
        let mut cluster = pages.cluster.clone();
        if change(&mut cluster)? {
            self.enter(&mut pages, Entry::Cluster(cluster));
            drop(pages);
            let driver = driver.to_owned();
            self.write(Event::ApiWrite { object, driver });
        }
        Ok(())
    }

    /// Changes the API objects as kubectl would.
    pub(super) fn change_cluster(&self, change: impl FnOnce(&mut Cluster)) {
        let mut pages = self.pages();
        let mut cluster = pages.cluster.clone();
        change(&mut cluster);
        self.enter(&mut pages, Entry::Cluster(cluster));
    }

    /// Takes over an entry of a kubelet in another process.
    pub(super) fn copy(&self, entry: Entry) {
        self.enter(&mut self.pages(), entry);
    }

    fn enter(&self, pages: &mut Pages, entry: Entry) {
        // Under the lock: the tap must get the entries in order.
        if let Some(tap) = &self.tap {
            tap(entry.clone());
        }
        match entry {
            Entry::Record(record) => pages.records.push(record),
            Entry::Cluster(cluster) => pages.cluster = cluster,
        }
        self.changed.notify_all();
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap()
    }
}

/// The sum of the records.
#[derive(Default)]
struct Books {
    registered: BTreeMap<String, String>,
    /// Registered drivers whose Notify has ended.
    told: BTreeSet<String>,
}

impl Books {
    fn read(records: &[Record]) -> Self {
        let mut books = Self::default();
        for record in records {
            match &record.event {
                Event::Started | Event::Stopped => books = Self::default(),
                Event::Register { name, endpoint, .. } => {
                    books.registered.insert(name.clone(), endpoint.clone());
                    books.told.remove(name);
                }
                Event::Notified {
                    name, stands: true, ..
                } if books.registered.contains_key(name) => {
                    books.told.insert(name.clone());
                }
                Event::Deregister { name, .. } => {
                    books.registered.remove(name);
                    books.told.remove(name);
                }
                _ => {}
            }
        }
        books
    }
}

fn now() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into()
}
