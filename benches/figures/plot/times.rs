//! The times: which part of the runs was over after how long.

use super::axis::{Axis, number};
use super::paper::{Anchor, Paper};
use crate::figure::Unit;
use crate::results::Line;
use crate::spread::{Rank, Spread};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 870.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 360.0;
/// Where the legend starts, and how far apart its lines are.
const LEGEND: f64 = 424.0;
const STEP: f64 = 22.0;
/// More points than this cannot be told apart.
const POINTS: usize = 250;

struct Series<'a> {
    colour: usize,
    words: String,
    spread: &'a Spread,
    is_peer: bool,
}

/// None when no time was measured.
pub(super) fn draw(lines: &[Line]) -> Option<String> {
    let timed: Vec<&Line> = lines
        .iter()
        .filter(|line| line.figure.unit == Unit::Milliseconds)
        .collect();
    let series: Vec<Series<'_>> = timed
        .iter()
        .enumerate()
        .flat_map(|(colour, line)| series(colour, line))
        .collect();
    if series.is_empty() {
        return None;
    }
    let height = LEGEND + STEP * series.len() as f64 + 4.0;
    let mut paper = Paper::new(
        WIDTH,
        height,
        "How long things take",
        "The part of the runs that was over after a time, for each time that the benchmark measures. The time axis is logarithmic; diamonds are goals.",
    );
    let goals = timed.iter().flat_map(|line| line.figure.goals);
    let extremes = series
        .iter()
        .flat_map(|series| [series.spread.samples()[0], series.spread.at(Rank::Worst)]);
    let values = extremes.chain(goals.map(|goal| goal.most));
    let axis = Axis::around(values.map(|value| value.max(0.01)), LEFT, RIGHT);
    frame(&mut paper, &axis);
    for (place, series) in series.iter().enumerate() {
        curve(&mut paper, &axis, series);
        legend(&mut paper, LEGEND + STEP * place as f64, series);
    }
    for (colour, line) in timed.iter().enumerate() {
        for goal in line.figure.goals {
            let at = (axis.at(goal.most), part_at(goal.rank.part()));
            paper.goal(&format!("c{colour}"), at);
        }
    }
    Some(paper.finish())
}

fn series(colour: usize, line: &Line) -> impl Iterator<Item = Series<'_>> {
    let ours = line.ours.spread().map(|spread| Series {
        colour,
        words: line.figure.words.to_owned(),
        spread,
        is_peer: false,
    });
    let peer = line.peer.as_ref().and_then(|peer| peer.spread());
    let peer = peer.map(|spread| Series {
        colour,
        words: format!("peer: {}", line.figure.words),
        spread,
        is_peer: true,
    });
    ours.into_iter().chain(peer)
}

fn part_at(part: f64) -> f64 {
    BOTTOM - part * (BOTTOM - TOP)
}

fn frame(paper: &mut Paper, axis: &Axis) {
    let title = "runs that were over after this time (diamonds: goals)";
    paper.text("text", Anchor::Start, (LEFT, 28.0), title);
    for x in axis.between() {
        paper.line("faint", (x, TOP), (x, BOTTOM));
    }
    for (x, label) in axis.decades() {
        paper.line("grid", (x, TOP), (x, BOTTOM));
        paper.text("dim", Anchor::Middle, (x, BOTTOM + 18.0), &label);
    }
    paper.text("dim", Anchor::End, (RIGHT, BOTTOM + 36.0), "milliseconds");
    for percent in [0, 25, 50, 75, 90, 99] {
        let y = part_at(f64::from(percent) / 100.0);
        paper.line("grid", (LEFT, y), (RIGHT, y));
        let label = format!("{percent} %");
        paper.text("dim", Anchor::End, (LEFT - 8.0, y + 4.0), &label);
    }
}

fn curve(paper: &mut Paper, axis: &Axis, series: &Series<'_>) {
    let samples = series.spread.samples();
    let points = samples.len().min(POINTS);
    let place = |point: usize| {
        let rank = (samples.len() * (point + 1)).div_ceil(points);
        let x = axis.at(samples[rank - 1].max(0.01));
        (x, part_at(rank as f64 / samples.len() as f64))
    };
    let first = (axis.at(samples[0].max(0.01)), part_at(0.0));
    let line: Vec<(f64, f64)> = std::iter::once(first)
        .chain((0..points).map(place))
        .collect();
    paper.path(&class(series), &line);
}

fn legend(paper: &mut Paper, y: f64, series: &Series<'_>) {
    paper.path(&class(series), &[(LEFT, y - 4.0), (LEFT + 28.0, y - 4.0)]);
    paper.text("text", Anchor::Start, (LEFT + 38.0, y), &series.words);
    let ranks = Rank::ALL.map(|rank| format!("{} {}", rank.word(), number(series.spread.at(rank))));
    let numbers = format!("{} ms", ranks.join(" · "));
    paper.text("dim", Anchor::End, (RIGHT, y), &numbers);
}

fn class(series: &Series<'_>) -> String {
    let dashes = if series.is_peer { " peer" } else { "" };
    format!("c{}{dashes}", series.colour)
}
