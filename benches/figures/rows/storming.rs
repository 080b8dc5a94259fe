//! Calls while another process changes files in watched directories without a pause.

use std::time::{Duration, Instant};

use bed::{Storm, Weather, raw};

use crate::contender::Contender;
use crate::outcome::Outcome;
use crate::scene::{Scene, milliseconds, rest};

/// On a core of its own: with more, the contender has none.
const THREADS: usize = 1;
/// GetInfo so often for each `status`, which is a process of its own.
const CALLS: usize = 10;

/// GetInfo on a connection of its own, and `status`, in a storm of this length of each kind.
pub(crate) fn measure(contender: &Contender, storm: Duration) -> [Outcome; 2] {
    let mut scene = Scene::with_drivers(contender, 2, "");
    scene.crew.start();
    scene.wait_serving();
    let (mut calls, mut statuses) = (Vec::new(), Vec::new());
    for weather in Weather::ALL {
        let _storm = Storm::begin(weather, THREADS, &scene.node, &scene.names);
        let begun = Instant::now();
        while begun.elapsed() < storm {
            for _ in 0..CALLS {
                calls.push(time(|| raw::get_info(&scene.link(), "localhost").is_ok()));
            }
            if !contender.is_peer() {
                statuses.push(time(|| scene.crew.asks_status()));
            }
            rest();
        }
    }
    let statuses = if contender.is_peer() {
        Outcome::senseless("it has no status")
    } else {
        Outcome::of(statuses)
    };
    [Outcome::of(calls), statuses]
}

fn time(succeeds: impl FnOnce() -> bool) -> f64 {
    let start = Instant::now();
    assert!(succeeds(), "there is no answer");
    milliseconds(start.elapsed())
}
