//! All that was measured in one run, and as JSON.

use serde_json::{Value, json};

use crate::figure::Figure;
use crate::machine::Machine;
use crate::outcome::Outcome;
use crate::rows::growth::Cost;
use crate::spread::{Rank, Spread};

pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) quick: bool,
    pub(crate) lines: Vec<Line>,
    pub(crate) growth: Vec<Cost>,
    pub(crate) peer_growth: Vec<Cost>,
}

/// One figure, as it came out.
pub(crate) struct Line {
    pub(crate) figure: &'static Figure,
    pub(crate) ours: Outcome,
    pub(crate) peer: Option<Outcome>,
}

impl Line {
    /// None where there is no goal or nothing was measured.
    pub(crate) fn is_met(&self) -> Option<bool> {
        let spread = self.ours.spread()?;
        let goals = self.figure.goals;
        (!goals.is_empty()).then(|| goals.iter().all(|goal| goal.is_met(spread)))
    }

    /// How many times the peer's median is ours.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let ours = self.ours.spread()?.at(Rank::P50);
        let peers = self.peer.as_ref()?.spread()?.at(Rank::P50);
        (ours > 0.0).then(|| peers / ours)
    }

    pub(crate) fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        std::iter::once(&self.ours).chain(&self.peer)
    }
}

impl Results {
    pub(crate) fn could_measure(&self) -> bool {
        let mut outcomes = self.lines.iter().flat_map(Line::outcomes);
        !outcomes.any(Outcome::is_failure)
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "machine": {
                "processor": self.machine.processor,
                "cores": self.machine.cores,
                "memory_gb": self.machine.memory_gb,
                "kernel": self.machine.kernel,
                "load": self.machine.load,
            },
            "quick": self.quick,
            "figures": self.lines.iter().map(line).collect::<Vec<_>>(),
            "growth": self.growth.iter().map(cost).collect::<Vec<_>>(),
            "peer_growth": self.peer_growth.iter().map(cost).collect::<Vec<_>>(),
        })
    }
}

fn line(line: &Line) -> Value {
    let goals = line.figure.goals.iter().map(|goal| {
        let met = line.ours.spread().map(|spread| goal.is_met(spread));
        json!({"of": goal.rank.word(), "at_most": goal.most, "met": met})
    });
    json!({
        "row": line.figure.row.name(),
        "drivers": line.figure.drivers,
        "figure": line.figure.words,
        "unit": line.figure.unit.word(),
        "goals": goals.collect::<Vec<_>>(),
        "ours": outcome(&line.ours),
        "peer": line.peer.as_ref().map(outcome),
        "ratio": line.ratio(),
    })
}

fn outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Measured(spread) => json!({
            "runs": spread.samples().len(),
            "p50": spread.at(Rank::P50),
            "p90": spread.at(Rank::P90),
            "p99": spread.at(Rank::P99),
            "worst": spread.at(Rank::Worst),
            "samples": spread.samples(),
        }),
        Outcome::Senseless(why) => json!({"senseless": why}),
        Outcome::Failed(why) => json!({"failed": why}),
    }
}

fn cost(cost: &Cost) -> Value {
    let samples = |spread: &Spread| json!(spread.samples());
    json!({
        "drivers": cost.drivers,
        "resident_mb": samples(&cost.resident),
        "anonymous_mb": samples(&cost.anonymous),
        "descriptors": samples(&cost.descriptors),
        "threads": samples(&cost.threads),
        "linked_ms": samples(&cost.linked),
        "registered_ms": samples(&cost.registered),
    })
}
