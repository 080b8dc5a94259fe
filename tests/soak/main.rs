//! Soak: a hundred drivers stop and start for a long time, and the daemon does not grow.
//!
//! `SOAK_MINUTES=…` says for how long. The test prints the table of samples; memory, open files and
//! threads must be flat over its second half.
#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod churn;
mod samples;
mod scene;

use std::time::{Duration, Instant};

use bed::Dice;
use bed::dice::{given, new_seed};

use crate::samples::Samples;

bed::kubelet_process!();
bed::registrar_program!();

const MINUTE: Duration = Duration::from_secs(60);
/// How long drivers stop and start between two samples.
const LAP: Duration = Duration::from_secs(3);

fn minutes(usual: u64) -> Duration {
    MINUTE * u32::try_from(given("SOAK_MINUTES").unwrap_or(usual)).unwrap()
}

fn soak(length: Duration) {
    let seed = given("SOAK_SEED").unwrap_or_else(new_seed);
    println!("SOAK_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut scene = scene::started();
    let mut samples = Samples::default();
    let start = Instant::now();
    // Even if each lap takes long, there are enough of them.
    while start.elapsed() < length || !samples.suffice() {
        let lap = Instant::now();
        while lap.elapsed() < LAP {
            churn::churn(&mut scene, &mut dice);
        }
        scene::wait_registered(&scene);
        samples.take(start.elapsed(), &scene);
    }
    println!("{samples}");
    samples.are_flat();
    scene::logged_no_error(&scene);
}

#[test]
fn needs_no_more_after_a_while_of_coming_and_going() {
    let in_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    soak(minutes(if in_ci { 3 } else { 1 }));
}

#[test]
#[ignore = "takes a quarter of an hour"]
fn needs_no_more_after_a_long_while_of_coming_and_going() {
    soak(minutes(15));
}
