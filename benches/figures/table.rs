//! The results as a table: for a terminal, and in Markdown.

use crate::figure::{Figure, Goal};
use crate::outcome::Outcome;
use crate::results::Line;
use crate::spread::Rank;

const HEAD: [&str; 8] = ["", "p50", "p90", "p99", "worst", "runs", "goal", "met"];
const PEER_HEAD: [&str; 3] = ["peer p50", "peer worst", "peer / ours"];

/// Rows of cells; the first one is the head.
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn of(lines: &[Line]) -> Table {
        let with_peer = lines.iter().any(|line| line.peer.is_some());
        let mut head: Vec<String> = HEAD.map(str::to_owned).to_vec();
        if with_peer {
            head.extend(PEER_HEAD.map(str::to_owned));
        }
        let rows = lines.iter().map(|line| row(line, with_peer));
        Table(std::iter::once(head).chain(rows).collect())
    }

    /// With columns as wide as what is in them.
    pub(crate) fn text(&self) -> String {
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.0[0].len()).map(width).collect();
        let mut text = String::new();
        for row in &self.0 {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let gap = " ".repeat(width - cell.chars().count());
                // Words to the left, numbers to the right.
                match column {
                    0 | 6 | 7 => line += &format!("{cell}{gap}  "),
                    _ => line += &format!("{gap}{cell}  "),
                }
            }
            text += line.trim_end();
            text += "\n";
        }
        text
    }

    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(self.0[0].len()));
        let rows: String = self.0[1..].iter().map(|row| line(row)).collect();
        line(&self.0[0]) + &rule + &rows
    }
}

fn row(line: &Line, with_peer: bool) -> Vec<String> {
    let figure = line.figure;
    let mut cells = vec![figure.words.to_owned()];
    match &line.ours {
        Outcome::Measured(spread) if spread.samples().len() == 1 => {
            cells.push(figure.unit.show(spread.at(Rank::P50)));
            cells.extend(["", "", "", "1"].map(str::to_owned));
        }
        Outcome::Measured(spread) => {
            cells.extend(Rank::ALL.map(|rank| figure.unit.show(spread.at(rank))));
            cells.push(spread.samples().len().to_string());
        }
        Outcome::Senseless(why) | Outcome::Failed(why) => {
            cells.push(in_one_line(why));
            cells.extend(["", "", "", ""].map(str::to_owned));
        }
    }
    cells.push(goals(figure));
    cells.push(match line.is_met() {
        Some(true) => "yes".to_owned(),
        Some(false) => "no".to_owned(),
        None => String::new(),
    });
    if with_peer {
        cells.extend(peer(line));
    }
    cells
}

fn peer(line: &Line) -> [String; 3] {
    let show = |rank| {
        let spread = line.peer.as_ref()?.spread()?;
        Some(line.figure.unit.show(spread.at(rank)))
    };
    match &line.peer {
        Some(Outcome::Measured(_)) => [
            show(Rank::P50).unwrap_or_default(),
            show(Rank::Worst).unwrap_or_default(),
            line.ratio()
                .map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.1}")),
        ],
        Some(Outcome::Senseless(why) | Outcome::Failed(why)) => {
            [in_one_line(why), String::new(), String::new()]
        }
        None => [const { String::new() }; 3],
    }
}

fn goals(figure: &Figure) -> String {
    let goal = |goal: &Goal| {
        let most = figure.unit.show_goal(goal.most);
        match goal.rank {
            Rank::Worst if goal.most == 0.0 => most,
            Rank::Worst => format!("≤ {most}"),
            rank => format!("{} ≤ {most}", rank.word()),
        }
    };
    let goals: Vec<String> = figure.goals.iter().map(goal).collect();
    goals.join(", ")
}

/// The reason may be a log of many lines; the first says it.
fn in_one_line(why: &str) -> String {
    let line = why.lines().next().unwrap_or_default();
    line.chars().take(60).collect()
}
