//! The daemon's memory, files and threads over time, and whether they grew.

use std::fmt;
use std::thread;
use std::time::Duration;

use bed::kubelet::Mark;

use crate::scene::SoakScene;

/// A heap varies by this much without a lasting reason.
const MORE_KB: f64 = 2048.0;
/// A client that the daemon was just serving.
const MORE_DESCRIPTORS: f64 = 3.0;
const LOOKS: u32 = 10;
const LOOK_AGAIN: Duration = Duration::from_millis(30);
/// Fewer samples would show nothing.
const FEWEST: usize = 8;

/// Samples in the order of time.
#[derive(Default)]
pub(crate) struct Samples(Vec<Sample>);

struct Sample {
    at: Duration,
    rss_kb: u64,
    private_kb: u64,
    descriptors: usize,
    threads: u64,
    /// The kubelet's registrations so far, as a sign of activity.
    registrations: usize,
}

impl Samples {
    pub(crate) fn take(&mut self, at: Duration, scene: &SoakScene) {
        // First, because it waits until the daemon is quiet.
        let descriptors = kept_descriptors(scene);
        self.0.push(Sample {
            at,
            rss_kb: scene.registrar.rss_kb(),
            private_kb: scene.registrar.private_kb(),
            descriptors,
            threads: scene.registrar.thread_count(),
            registrations: scene.kubelet.counts_since(Mark::default()).registrations,
        });
    }

    /// Whether the samples are enough.
    pub(crate) fn suffice(&self) -> bool {
        self.0.len() >= FEWEST
    }

    /// Over the second half nothing grew by more than its normal variation.
    #[track_caller]
    pub(crate) fn are_flat(&self) {
        assert!(self.suffice(), "{} samples", self.0.len());
        let half = &self.0[self.0.len() / 2..];
        let rise = |value: fn(&Sample) -> f64| rise(half, value);
        let memory = rise(|sample| sample.private_kb as f64);
        let descriptors = rise(|sample| sample.descriptors as f64);
        let threads = rise(|sample| sample.threads as f64);
        println!(
            "rise over the second half: {memory:.0} kB, {descriptors:.1} descriptors, {threads:.1} threads"
        );
        assert!(memory <= MORE_KB, "memory rose by {memory:.0} kB");
        assert!(
            descriptors <= MORE_DESCRIPTORS,
            "open files rose by {descriptors:.1}"
        );
        assert!(threads < 1.0, "threads rose by {threads:.1}");
    }
}

/// Files that stay open: the least of a few looks, because a kubelet closes its connection a moment
/// after its last call.
fn kept_descriptors(scene: &SoakScene) -> usize {
    let look = |_| {
        thread::sleep(LOOK_AGAIN);
        scene.registrar.fd_count()
    };
    (0..LOOKS).map(look).min().unwrap()
}

/// How much the line through the samples (least squares) rises from the first to the last.
fn rise(samples: &[Sample], value: fn(&Sample) -> f64) -> f64 {
    let count = samples.len() as f64;
    let mean = |of: &dyn Fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let at = |sample: &Sample| sample.at.as_secs_f64();
    let (mean_at, mean_value) = (mean(&at), mean(&value));
    let spread: f64 = samples
        .iter()
        .map(|sample| (at(sample) - mean_at).powi(2))
        .sum();
    let together: f64 = samples
        .iter()
        .map(|sample| (at(sample) - mean_at) * (value(sample) - mean_value))
        .sum();
    let length = at(&samples[samples.len() - 1]) - at(&samples[0]);
    together / spread * length
}

impl fmt::Display for Samples {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  seconds   rss kB  private kB  files  threads  registrations"
        )?;
        for sample in &self.0 {
            writeln!(
                out,
                "{:9.1} {:8} {:11} {:6} {:8} {:14}",
                sample.at.as_secs_f64(),
                sample.rss_kb,
                sample.private_kb,
                sample.descriptors,
                sample.threads,
                sample.registrations
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(memory: impl Fn(u64) -> u64) -> Samples {
        let sample = |number| Sample {
            at: Duration::from_secs(number),
            rss_kb: 0,
            private_kb: memory(number),
            descriptors: 200,
            threads: 2,
            registrations: 0,
        };
        Samples((0..20).map(sample).collect())
    }

    #[test]
    fn a_heap_that_settles_is_flat() {
        samples(|number| 9000 + 4000 * number.min(8) + number % 2 * 300).are_flat();
    }

    #[test]
    #[should_panic(expected = "memory rose by")]
    fn a_leak_is_not_flat() {
        samples(|number| 9000 + 300 * number).are_flat();
    }
}
