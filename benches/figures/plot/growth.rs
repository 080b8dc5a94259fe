//! Growth: memory, descriptors and time, from one driver to a thousand.

use super::axis::{Axis, number};
use super::paper::{Anchor, Paper};
use crate::figure::Row;
use crate::rows::growth::Cost;
use crate::spread::{Rank, Spread};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 330.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 270.0;
/// From the left edge of one panel to that of the next.
const STRIDE: f64 = 295.0;
const LEFT: f64 = 50.0;
const PANEL: f64 = 240.0;

struct Panel {
    title: &'static str,
    value: fn(&Cost) -> &Spread,
    /// Drivers and the most for them.
    goals: Vec<(f64, f64)>,
}

/// None when nothing was measured.
pub(super) fn draw(ours: &[Cost], peers: &[Cost]) -> Option<String> {
    if ours.is_empty() {
        return None;
    }
    let mut paper = Paper::new(
        WIDTH,
        HEIGHT,
        "What more drivers cost",
        "Resident memory, open descriptors and the time until all drivers are linked, by the number of drivers. All axes are logarithmic; diamonds are goals.",
    );
    let memory = Row::Memory.figures().flat_map(|figure| {
        let drivers = figure.drivers.unwrap_or(1) as f64;
        figure.goals.iter().map(move |goal| (drivers, goal.most))
    });
    let panels = [
        Panel {
            title: "resident memory, MB",
            value: |cost| &cost.resident,
            goals: memory.collect(),
        },
        Panel {
            title: "open descriptors",
            value: |cost| &cost.descriptors,
            goals: Vec::new(),
        },
        Panel {
            title: "until all are linked, ms",
            value: |cost| &cost.linked,
            goals: Vec::new(),
        },
    ];
    for (place, panel) in panels.iter().enumerate() {
        let left = LEFT + STRIDE * place as f64;
        draw_panel(&mut paper, panel, place, left, ours, peers);
    }
    if !peers.is_empty() {
        let words = "dashed: the peer, all its processes together";
        paper.text("dim", Anchor::Start, (LEFT, HEIGHT - 10.0), words);
    }
    Some(paper.finish())
}

fn draw_panel(
    paper: &mut Paper,
    panel: &Panel,
    colour: usize,
    left: f64,
    ours: &[Cost],
    peers: &[Cost],
) {
    let right = left + PANEL;
    let all = || ours.iter().chain(peers);
    let drivers = Axis::around(all().map(|cost| cost.drivers as f64), left, right);
    let seen = all().map(|cost| (panel.value)(cost).at(Rank::P50));
    let goals = panel.goals.iter().map(|(_, most)| *most);
    let values = Axis::around(seen.chain(goals), BOTTOM, TOP);
    paper.text("text", Anchor::Start, (left, TOP - 24.0), panel.title);
    for (x, label) in drivers.decades() {
        paper.line("grid", (x, TOP), (x, BOTTOM));
        paper.text("dim", Anchor::Middle, (x, BOTTOM + 18.0), &label);
    }
    for (y, label) in values.decades() {
        paper.line("grid", (left, y), (right, y));
        paper.text("dim", Anchor::End, (left - 6.0, y + 4.0), &label);
    }
    paper.text("dim", Anchor::End, (right, BOTTOM + 36.0), "drivers");
    let place = |cost: &Cost| {
        let value = (panel.value)(cost).at(Rank::P50);
        (drivers.at(cost.drivers as f64), values.at(value))
    };
    // Labels are above their line, or below it if the peer's line is above.
    let under = if peers.is_empty() { -9.0 } else { 18.0 };
    for (costs, dashes, beside) in [(ours, "", under), (peers, " peer", -9.0)] {
        let line: Vec<(f64, f64)> = costs.iter().map(place).collect();
        if line.len() > 1 {
            paper.path(&format!("c{colour}{dashes}"), &line);
        }
        for cost in costs {
            let (x, y) = place(cost);
            paper.dot(&format!("c{colour}"), (x, y));
            let value = number((panel.value)(cost).at(Rank::P50));
            // To the left of the line, which rises; but the first has no room there.
            let (anchor, x) = match cost.drivers {
                1 => (Anchor::Start, x + 6.0),
                _ => (Anchor::End, x - 4.0),
            };
            paper.text(&format!("name c{colour}"), anchor, (x, y + beside), &value);
        }
    }
    for (count, most) in &panel.goals {
        let at = (drivers.at(*count), values.at(*most));
        paper.goal(&format!("c{colour}"), at);
    }
}
