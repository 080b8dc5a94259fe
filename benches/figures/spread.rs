//! The samples of one figure, and what they add up to.

/// Samples in ascending order, at least one.
pub(crate) struct Spread {
    samples: Vec<f64>,
}

/// The part of the samples that a number is no less than.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    P50,
    P90,
    P99,
    Worst,
}

impl Rank {
    pub(crate) const ALL: [Rank; 4] = [Rank::P50, Rank::P90, Rank::P99, Rank::Worst];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Rank::P50 => "p50",
            Rank::P90 => "p90",
            Rank::P99 => "p99",
            Rank::Worst => "worst",
        }
    }

    /// As a part of all samples.
    pub(crate) fn part(self) -> f64 {
        self.percent() as f64 / 100.0
    }

    fn percent(self) -> usize {
        match self {
            Rank::P50 => 50,
            Rank::P90 => 90,
            Rank::P99 => 99,
            Rank::Worst => 100,
        }
    }
}

impl Spread {
    pub(crate) fn of(samples: impl IntoIterator<Item = f64>) -> Spread {
        let mut samples: Vec<f64> = samples.into_iter().collect();
        assert!(!samples.is_empty(), "nothing was measured");
        samples.sort_by(f64::total_cmp);
        Spread { samples }
    }

    /// A sample that was really seen: nothing is put in between two of them.
    pub(crate) fn at(&self, rank: Rank) -> f64 {
        self.samples[(self.samples.len() * rank.percent()).div_ceil(100) - 1]
    }

    pub(crate) fn samples(&self) -> &[f64] {
        &self.samples
    }
}
