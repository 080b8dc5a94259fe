//! What a restart of the contender costs the API server.

use std::time::{Duration, Instant};

use bed::kubelet::Mark;

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{DEADLINE, Scene, rest};

/// Longer than we wait before a first announcement, and forty rounds of the kubelet's loop.
const QUIET: Duration = Duration::from_millis(4000);

/// systemd's restart leaves our links as they are; without systemd the configuration has to say so.
const KEEP: &str = "[service]\non_stop = \"keep\"\n";

/// Writes to CSINode and Node, in each restart.
pub(crate) fn measure(contender: &Contender, restarts: usize) -> Outcome {
    let mut scene = Scene::with_drivers(contender, 1, KEEP);
    let kubelet = scene.node.kubelet();
    scene.crew.start();
    kubelet.wait_registered(&scene.names[0], DEADLINE);
    settle(|| kubelet.counts_since(Mark::default()).api_writes());
    Outcome::of((0..restarts).map(|_| {
        let mark = kubelet.mark();
        scene.crew.stop();
        scene.crew.start();
        scene.wait_serving();
        let writes = || kubelet.counts_since(mark).api_writes();
        settle(writes);
        kubelet.wait_registered(&scene.names[0], DEADLINE);
        writes() as f64
    }))
}

/// Waits until nothing has been written for a while.
fn settle(writes: impl Fn() -> usize) {
    let start = Instant::now();
    let mut known = writes();
    let mut since = Instant::now();
    while since.elapsed() < QUIET {
        assert!(start.elapsed() < DEADLINE, "the kubelet writes on and on");
        rest();
        if writes() != known {
            (known, since) = (writes(), Instant::now());
        }
    }
}
