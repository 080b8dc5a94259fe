//! The calm: everything is healthy again, and the invariants must hold.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use bed::kubelet::Mark;

use crate::disk::{Disk, disperse};
use crate::fault::Directory;
use crate::happening::CROWD;
use crate::party::Party;
use crate::scene::{PATIENCE, STATE_FILE, Scene};

/// Each look at the status starts a process.
const LOOK_AGAIN: Duration = Duration::from_millis(60);
/// Three rounds of the kubelet's loop: it has acted on everything it has seen.
const STEADY: Duration = Duration::from_millis(300);
/// Calls of the kubelet, requests of the test, and files that the runtime opens for a moment.
const MORE_DESCRIPTORS: usize = 6;
/// A build without optimisation, and a heap after all faults at once.
const MORE_KB: u64 = 8 << 10;

/// The daemon's memory, files and threads before any fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    descriptors: usize,
    private_kb: u64,
    threads: u64,
}

impl Scene {
    /// Ends every fault that has not ended by itself. Returns how many drivers restarted for that.
    pub(crate) fn heal(&mut self) -> usize {
        for disk in Disk::ALL {
            self.free(disk);
        }
        self.check_squatters();
        while let Some((path, directory)) = self.covered.pop() {
            self.mounts.as_mut().unwrap().unmount(&path);
            // The driver may have started on the mount.
            if let Directory::Plugin(which) = directory {
                self.parties[which].is_harmed();
            }
            self.check_squatters();
        }
        let mut crowded = self.shared_directories();
        crowded.push(self.node.plugins_dir());
        crowded
            .iter()
            .for_each(|directory| disperse(directory, CROWD));
        self.drive_out_squatters();
        self.callers.clear();
        if let Some(limit) = self.limit.take() {
            self.set_limit(limit);
        }
        self.set_clock(0);
        self.thaw();
        self.kubelet.fault(|faults| *faults = Default::default());
        if self.kubelet_is_down || self.kubelet_is_blind {
            self.restart_kubelet(self.kubelet.settings().release);
        }
        for directory in std::mem::take(&mut self.bare) {
            fs::create_dir_all(&directory).unwrap();
            self.sentinels.plant(&directory);
        }
        let recovered = self.parties.iter_mut().filter_map(Party::recover).count();
        if self.registrar_is_down {
            self.start(None);
        }
        // The daemon writes the file at the next change of state, which may be far off, or at a reload.
        if !self.in_runtime_dir(STATE_FILE).exists() {
            self.reload();
        }
        recovered
    }

    /// Waits until every invariant holds, and not only for a moment.
    pub(crate) fn wait_calm(&mut self) {
        let start = Instant::now();
        let mut calm_since = None;
        loop {
            let late = start.elapsed() >= PATIENCE;
            self.start_if_ended();
            let troubles = self.troubles();
            if troubles.is_empty() {
                if calm_since.get_or_insert_with(Instant::now).elapsed() >= STEADY {
                    self.run_was_full = false;
                    return;
                }
            } else {
                calm_since = None;
                self.hurry();
            }
            assert!(!late, "not within {PATIENCE:?}: {troubles:#?}");
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// The registrar paces changes of a driver that follow each other, for minutes; reannounce ends the
    /// wait.
    fn hurry(&self) {
        let Some(status) = self.registrar.status() else {
            return;
        };
        let waits = |reason: &String| reason.contains("the next announcement waits");
        for driver in status.drivers {
            if driver.reason.as_ref().is_some_and(waits) {
                self.registrar.run_cli(["reannounce", &driver.id]);
            }
        }
    }

    /// The invariants that do not hold.
    fn troubles(&self) -> Vec<String> {
        let mut troubles = self.kubelet_troubles();
        if troubles.is_empty() {
            troubles = self.status_troubles();
        }
        if troubles.is_empty() {
            troubles = self.strays();
        }
        troubles
    }

    fn kubelet_troubles(&self) -> Vec<String> {
        let wanted: BTreeMap<String, String> = self
            .parties
            .iter()
            .map(|party| (party.name(), party.socket().display().to_string()))
            .collect();
        let registered = self.kubelet.registered();
        if registered != wanted {
            return vec![format!("the kubelet has {registered:#?}, not {wanted:#?}")];
        }
        let cluster = self.kubelet.cluster();
        let stale = self.parties.iter().filter_map(|party| {
            let entry = cluster.csi_node.get(&party.name());
            let known = entry.map(|entry| entry.node_id.as_str());
            (known != Some(&party.node_id()))
                .then(|| format!("{}: the cluster knows {known:?}", party.id))
        });
        stale.collect()
    }

    fn status_troubles(&self) -> Vec<String> {
        let Some(status) = self.registrar.status() else {
            return vec!["no daemon answers".to_owned()];
        };
        let mut troubles = Vec::new();
        if status.drivers.len() != self.parties.len() {
            troubles.push(format!("{} drivers in the status", status.drivers.len()));
        }
        for party in &self.parties {
            let socket = party.socket().display().to_string();
            let agrees = status.driver(&party.id).is_some_and(|driver| {
                driver.phase == "registered"
                    && driver.name == Some(party.name())
                    && driver.node_id == Some(party.node_id())
                    && driver.endpoint.as_ref() == Some(&socket)
                    && driver
                        .reason
                        .as_ref()
                        .is_some_and(|reason| !reason.contains("not responding"))
            });
            if !agrees {
                troubles.push(format!("{:#?}", status.driver(&party.id)));
            }
        }
        troubles
    }

    /// The daemon's memory, files and threads now.
    pub(crate) fn footprint(&self) -> Footprint {
        Footprint {
            descriptors: self.registrar.fd_count(),
            private_kb: self.registrar.private_kb(),
            threads: self.registrar.thread_count(),
        }
    }

    /// No foreign file was touched, and no file is left over.
    pub(crate) fn check(&self, usual: Footprint) {
        assert_eq!(self.sentinels.touched(), Vec::<String>::new());
        let start = Instant::now();
        loop {
            let now = self.footprint();
            if now.descriptors <= usual.descriptors + MORE_DESCRIPTORS
                && now.private_kb <= usual.private_kb + MORE_KB
                && now.threads <= usual.threads
            {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "{now:?} in place of {usual:?}");
            thread::sleep(LOOK_AGAIN);
        }
    }

    /// This part of the log has no line that an operator must act on.
    pub(crate) fn check_log(&self, part: Range<usize>, explained: &[&str]) {
        let log = &self.registrar.logs()[part];
        let bad = log.lines().filter(|line| {
            line.contains("panicked at")
                || line.contains(" ERROR ") && !explained.iter().any(|words| line.contains(words))
        });
        let bad: Vec<&str> = bad.collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }

    /// The cluster sees no change for longer than the registrar's first timer.
    pub(crate) fn stays_calm(&mut self, during: Duration, mark: Mark) {
        let seen = |scene: &Scene| {
            let counts = scene.kubelet.counts_since(mark);
            (counts.registrations, counts.deregistrations)
        };
        let before = seen(self);
        thread::sleep(during);
        self.wait_calm();
        assert_eq!(seen(self), before, "the kubelet had more to do in the calm");
    }
}
