//! What is measured, and the goal of each.

use crate::spread::{Rank, Spread};

/// One line of the table.
pub(crate) struct Figure {
    pub(crate) row: Row,
    /// How many drivers the node has, where that is what makes the difference.
    pub(crate) drivers: Option<usize>,
    pub(crate) words: &'static str,
    pub(crate) unit: Unit,
    pub(crate) goals: &'static [Goal],
}

/// What is measured in one go, and what `--only` names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Row {
    Appear,
    Link,
    Socket,
    Start,
    GetInfo,
    Storm,
    Memory,
    Wakeups,
    Binary,
    Restart,
    Volumes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    Megabytes,
    PerSecond,
    Writes,
    Reads,
}

/// The most that a rank may be.
pub(crate) struct Goal {
    pub(crate) rank: Rank,
    pub(crate) most: f64,
}

const fn goal(rank: Rank, most: f64) -> Goal {
    Goal { rank, most }
}

/// The lines of the table, in its order.
pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        row: Row::Appear,
        drivers: None,
        words: "csi.sock listens → reg.sock answers and the link is there",
        unit: Unit::Milliseconds,
        goals: &[goal(Rank::P50, 3.0), goal(Rank::P99, 20.0)],
    },
    Figure {
        row: Row::Link,
        drivers: None,
        words: "link deleted → back",
        unit: Unit::Milliseconds,
        goals: &[goal(Rank::P50, 2.0)],
    },
    Figure {
        row: Row::Socket,
        drivers: None,
        words: "reg.sock deleted → back",
        unit: Unit::Milliseconds,
        goals: &[goal(Rank::P50, 2.0)],
    },
    Figure {
        row: Row::Start,
        drivers: None,
        words: "start → serving, driver there",
        unit: Unit::Milliseconds,
        goals: &[goal(Rank::P50, 5.0)],
    },
    Figure {
        row: Row::GetInfo,
        drivers: None,
        words: "GetInfo with 1,000 connections open, one asks at a time",
        unit: Unit::Milliseconds,
        goals: &[goal(Rank::P99, 50.0)],
    },
    Figure {
        row: Row::GetInfo,
        drivers: None,
        words: "GetInfo with 1,000 connections open, all ask at once",
        unit: Unit::Milliseconds,
        goals: &[],
    },
    Figure {
        row: Row::Storm,
        drivers: None,
        words: "GetInfo while files in watched directories change without a pause",
        unit: Unit::Milliseconds,
        goals: &[goal(Rank::P99, 50.0)],
    },
    Figure {
        row: Row::Storm,
        drivers: None,
        words: "`status` while files in watched directories change without a pause",
        unit: Unit::Milliseconds,
        goals: &[goal(Rank::P99, 50.0)],
    },
    Figure {
        row: Row::Memory,
        drivers: Some(1),
        words: "resident memory, 1 driver",
        unit: Unit::Megabytes,
        goals: &[goal(Rank::P50, 5.0)],
    },
    Figure {
        row: Row::Memory,
        drivers: Some(10),
        words: "resident memory, 10 drivers",
        unit: Unit::Megabytes,
        goals: &[],
    },
    Figure {
        row: Row::Memory,
        drivers: Some(100),
        words: "resident memory, 100 drivers",
        unit: Unit::Megabytes,
        goals: &[goal(Rank::P50, 8.0)],
    },
    Figure {
        row: Row::Memory,
        drivers: Some(1000),
        words: "resident memory, 1,000 drivers",
        unit: Unit::Megabytes,
        goals: &[],
    },
    Figure {
        row: Row::Wakeups,
        drivers: Some(1),
        words: "wake-ups a second when idle, 1 driver",
        unit: Unit::PerSecond,
        goals: &[goal(Rank::P50, 0.1)],
    },
    Figure {
        row: Row::Wakeups,
        drivers: Some(100),
        words: "wake-ups a second when idle, 100 drivers",
        unit: Unit::PerSecond,
        goals: &[goal(Rank::P50, 1.0)],
    },
    Figure {
        row: Row::Binary,
        drivers: None,
        words: "stripped binary",
        unit: Unit::Megabytes,
        goals: &[goal(Rank::Worst, 5.0)],
    },
    Figure {
        row: Row::Restart,
        drivers: None,
        words: "API writes caused by a restart of the registrar",
        unit: Unit::Writes,
        goals: &[goal(Rank::Worst, 0.0)],
    },
    Figure {
        row: Row::Volumes,
        drivers: None,
        words: "`/status` with a look at the volumes of 250 pods, two each: 1,000 files",
        unit: Unit::Milliseconds,
        goals: &[],
    },
    Figure {
        row: Row::Volumes,
        drivers: None,
        words: "reads of this look",
        unit: Unit::Reads,
        goals: &[],
    },
    Figure {
        row: Row::Volumes,
        drivers: None,
        words: "resident memory after this look, 1 driver",
        unit: Unit::Megabytes,
        goals: &[],
    },
];

impl Row {
    pub(crate) const ALL: [Row; 11] = [
        Row::Appear,
        Row::Link,
        Row::Socket,
        Row::Start,
        Row::GetInfo,
        Row::Storm,
        Row::Memory,
        Row::Wakeups,
        Row::Binary,
        Row::Restart,
        Row::Volumes,
    ];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Row::Appear => "appear",
            Row::Link => "link",
            Row::Socket => "socket",
            Row::Start => "start",
            Row::GetInfo => "getinfo",
            Row::Storm => "storm",
            Row::Memory => "memory",
            Row::Wakeups => "wakeups",
            Row::Binary => "binary",
            Row::Restart => "restart",
            Row::Volumes => "volumes",
        }
    }

    /// Its lines of the table, in their order.
    pub(crate) fn figures(self) -> impl Iterator<Item = &'static Figure> {
        FIGURES.iter().filter(move |figure| figure.row == self)
    }
}

impl Unit {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Megabytes => "MB",
            Unit::PerSecond => "a second",
            Unit::Writes => "writes",
            Unit::Reads => "reads",
        }
    }

    /// The number with as many digits as mean something.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Milliseconds if value < 10.0 => format!("{value:.2} ms"),
            Unit::Milliseconds => format!("{value:.0} ms"),
            Unit::Megabytes if value < 10.0 => format!("{value:.2} MB"),
            Unit::Megabytes => format!("{value:.1} MB"),
            Unit::PerSecond => format!("{value:.2}"),
            Unit::Writes | Unit::Reads => format!("{value:.0}"),
        }
    }

    /// The bound as the specification writes it.
    pub(crate) fn show_goal(self, most: f64) -> String {
        match self {
            Unit::Milliseconds => format!("{most} ms"),
            Unit::Megabytes => format!("{most} MB"),
            Unit::PerSecond | Unit::Writes | Unit::Reads => format!("{most}"),
        }
    }
}

impl Goal {
    pub(crate) fn is_met(&self, spread: &Spread) -> bool {
        spread.at(self.rank) <= self.most
    }
}
