//! Chaos: the real binary under the faults of a node, in an order that a seed chooses.
//!
//! A run consists of rounds: a few faults, then a calm in which everything is healthy again and the
//! invariants must hold. The first rounds are the same in each run. `CHAOS_SEED=…` repeats a run, as
//! far as the machine's own timing allows; `CHAOS_SECONDS=…` says for how long new rounds begin.
//! docs/survival.md lists the faults and the assertions.
#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod allowance;
mod calm;
mod clock;
mod disk;
mod fault;
mod happening;
mod life;
mod party;
mod run;
mod scene;
mod squatter;
mod strays;
mod tally;

use std::panic::resume_unwind;
use std::thread;
use std::time::Duration;

use bed::dice::{given, new_seed};

use crate::tally::Tally;

bed::kubelet_process!();
bed::registrar_program!();

/// These seeds run each time: both layouts, each with and without a clock that steps, and with and
/// without a resync each second.
const FIXED: [u64; 4] = [3, 7, 10, 13];
/// For how long new rounds begin; the last round and its calm come on top.
const SHORT: u64 = 15;
const LONG: u64 = 40;

fn seconds(usual: u64) -> Duration {
    Duration::from_secs(given("CHAOS_SECONDS").unwrap_or(usual))
}

/// A few at a time: a run mostly waits for timers. Returns what happened.
fn run_all(seeds: &[u64], at_once: usize, length: Duration) -> Tally {
    let mut tally = Tally::default();
    for some in seeds.chunks(at_once) {
        thread::scope(|scope| {
            let start = |seed: &u64| {
                let seed = *seed;
                thread::Builder::new()
                    .name(format!("CHAOS_SEED={seed}"))
                    .spawn_scoped(scope, move || run::run(seed, length))
                    .unwrap()
            };
            let runs: Vec<_> = some.iter().map(start).collect();
            for run in runs {
                tally.add(run.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
    }
    tally
}

#[test]
fn whatever_happens_the_next_calm_finds_every_driver_registered() {
    let seeds = match given("CHAOS_SEED") {
        Some(seed) => vec![seed],
        None => FIXED.into_iter().chain([new_seed()]).collect(),
    };
    run_all(&seeds, seeds.len(), seconds(SHORT));
}

#[test]
#[ignore = "takes ten minutes"]
fn fifty_seeds() {
    let first = given("CHAOS_SEED").unwrap_or_else(new_seed);
    let seeds: Vec<u64> = (0..50).map(|number| first.wrapping_add(number)).collect();
    let tally = run_all(&seeds, 5, seconds(LONG));
    println!("{} faults: {tally}", tally.total());
    assert_eq!(tally.missing(), Vec::<&str>::new(), "never happened");
}
