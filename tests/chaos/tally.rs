//! How often each kind of fault happened.

use std::collections::BTreeMap;
use std::fmt;

use bed::Dice;

use crate::fault::{Fault, Terms};

/// Enough rounds to see every kind.
const ROLLS: usize = 20_000;

/// Kinds of faults, including those that have not happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(BTreeMap<String, usize>);

impl Tally {
    /// Every kind that is possible on these terms, with a count of zero.
    pub(crate) fn on(terms: Terms) -> Tally {
        let mut dice = Dice::new(0);
        let kinds = (0..ROLLS).map(|_| Fault::roll(&mut dice, terms).kind());
        Tally(kinds.map(|kind| (kind, 0)).collect())
    }

    pub(crate) fn count(&mut self, fault: Fault) {
        *self.0.entry(fault.kind()).or_default() += 1;
    }

    pub(crate) fn add(&mut self, other: Tally) {
        for (kind, count) in other.0 {
            *self.0.entry(kind).or_default() += count;
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Kinds that were possible and never happened.
    pub(crate) fn missing(&self) -> Vec<&str> {
        let missing = self.0.iter().filter(|(_, count)| **count == 0);
        missing.map(|(kind, _)| kind.as_str()).collect()
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.0.iter().filter(|(_, count)| **count > 0);
        let counts: Vec<String> = counts
            .map(|(kind, count)| format!("{count} {kind}"))
            .collect();
        f.write_str(&counts.join(", "))
    }
}
