//! A contender starts on a node whose driver runs.

use std::time::Instant;

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{Scene, milliseconds, rest};

/// From before the fork until GetInfo is answered through the link.
pub(crate) fn measure(contender: &Contender, runs: usize) -> Outcome {
    let mut scene = Scene::with_drivers(contender, 1, "");
    Outcome::of((0..runs).map(|_| {
        let start = Instant::now();
        scene.crew.start();
        scene.wait_serving();
        let time = milliseconds(start.elapsed());
        // Link and socket go with it, so that the next run finds nothing.
        scene.crew.stop();
        rest();
        time
    }))
}
