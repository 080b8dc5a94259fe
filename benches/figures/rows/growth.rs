//! What more drivers cost: memory, descriptors, threads and time.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bed::Footprint;

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{LONG_DEADLINE, Scene, milliseconds, rest};
use crate::spread::{Rank, Spread};

pub(crate) const MEGABYTE: f64 = 1024.0 * 1024.0;
/// A peer with a process for each driver is not asked to run more of them.
const MOST_PROCESSES: usize = 100;
/// Calls of the kubelet end, and with them their descriptors.
const SETTLED: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// One number of drivers.
pub(crate) struct Cost {
    pub(crate) drivers: usize,
    /// In MB.
    pub(crate) resident: Spread,
    /// The part of it that is no file's, in MB.
    pub(crate) anonymous: Spread,
    pub(crate) descriptors: Spread,
    pub(crate) threads: Spread,
    /// From the first driver's socket until every link exists, in milliseconds.
    pub(crate) linked: Spread,
    /// The same until the kubelet has registered them all.
    pub(crate) registered: Spread,
}

/// One measurement.
struct Sample {
    resident: f64,
    anonymous: f64,
    descriptors: f64,
    threads: f64,
    linked: f64,
    registered: f64,
}

/// Why this many are left out; none when they are not.
pub(crate) fn left_out(contender: &Contender, drivers: usize, quick: bool) -> Option<&'static str> {
    if contender.is_peer() && drivers > MOST_PROCESSES {
        Some("a process for each driver: not tried")
    } else if quick && drivers > 100 {
        Some("left out by --quick")
    } else {
        None
    }
}

pub(crate) fn measure(contender: &Contender, drivers: usize, runs: usize) -> Cost {
    let samples: Vec<Sample> = (0..runs).map(|_| one_run(contender, drivers)).collect();
    let spread = |part: fn(&Sample) -> f64| Spread::of(samples.iter().map(part));
    Cost {
        drivers,
        resident: spread(|sample| sample.resident),
        anonymous: spread(|sample| sample.anonymous),
        descriptors: spread(|sample| sample.descriptors),
        threads: spread(|sample| sample.threads),
        linked: spread(|sample| sample.linked),
        registered: spread(|sample| sample.registered),
    }
}

fn one_run(contender: &Contender, drivers: usize) -> Sample {
    let mut scene = Scene::new(contender, drivers, "");
    let kubelet = scene.node.kubelet();
    scene.crew.start();
    scene.wait_up();
    let start = Instant::now();
    scene.drivers_come();
    for name in &scene.names {
        // Those before it are there: the time is that of the last.
        wait_link(&scene.node.link(name));
    }
    let linked = milliseconds(start.elapsed());
    scene.wait_registered(&kubelet);
    let registered = milliseconds(start.elapsed());
    settle(&scene);
    Sample {
        resident: scene.crew.sum(Footprint::rss_kb) as f64 / 1024.0,
        anonymous: scene.crew.sum(Footprint::anonymous_kb) as f64 / 1024.0,
        descriptors: descriptors(&scene) as f64,
        threads: scene.crew.sum(Footprint::thread_count) as f64,
        linked,
        registered,
    }
}

/// Looks often, but not without a pause: hundreds of drivers need the core more.
fn wait_link(link: &Path) {
    let start = Instant::now();
    while link.symlink_metadata().is_err() {
        let late = start.elapsed() > LONG_DEADLINE;
        assert!(!late, "{} is missing", link.display());
        thread::sleep(LOOK_AGAIN);
    }
}

fn descriptors(scene: &Scene) -> u64 {
    scene.crew.sum(|footprint| footprint.fd_count() as u64)
}

fn settle(scene: &Scene) {
    let mut known = descriptors(scene);
    let mut since = Instant::now();
    while since.elapsed() < SETTLED {
        rest();
        let now = descriptors(scene);
        if now != known {
            (known, since) = (now, Instant::now());
        }
    }
}

impl Cost {
    pub(crate) fn memory(&self) -> Outcome {
        Outcome::of(self.resident.samples().iter().copied())
    }
}

/// The table of docs/performance.md for 1 to 1,000 drivers.
pub(crate) fn markdown(costs: &[Cost]) -> String {
    let mut table = "| drivers | resident memory | of it heap and stacks | descriptors | threads | all linked after | all registered after |\n|---|---|---|---|---|---|---|\n".to_owned();
    for cost in costs {
        let at = |spread: &Spread| spread.at(Rank::P50);
        table += &format!(
            "| {} | {:.1} MB | {:.1} MB | {} | {} | {:.0} ms | {:.0} ms |\n",
            cost.drivers,
            at(&cost.resident),
            at(&cost.anonymous),
            at(&cost.descriptors),
            at(&cost.threads),
            at(&cost.linked),
            at(&cost.registered)
        );
    }
    table
}
