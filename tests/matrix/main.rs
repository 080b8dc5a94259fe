//! Every release of the kubelet with every event: in the end the driver is registered, at the lowest
//! cost.
//!
//! `UPDATE_DOCS=1` writes the counts into docs/survival.md.

#![allow(
    clippy::unwrap_used,
    reason = "in a test a panic with its line is the report"
)]

mod event;
mod table;

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use bed::Release;
use bed::kubelet::Counts;

use self::event::Event;

/// Cells that run at once: they mostly wait.
const AT_ONCE: usize = 9;

/// One cell of the table.
struct Cell {
    event: Event,
    release: Release,
    counts: Counts,
    /// From the event until kubelet and registrar agree that the driver is registered.
    seconds: f64,
}

#[test]
fn every_event_ends_registered_at_the_least_cost_that_the_kubelet_allows() {
    let cells = measure();
    println!("{}", table::measured(&cells));
    let dear: Vec<String> = cells.iter().filter_map(complaint).collect();
    assert!(dear.is_empty(), "{dear:#?}");
    table::check_docs(&cells);
}

fn measure() -> Vec<Cell> {
    // Events with the longest waits are last in the list, and first in the queue.
    let all = Event::ALL.iter().rev();
    let queue: VecDeque<(Event, Release)> = all
        .flat_map(|event| Release::ALL.map(|release| (*event, release)))
        .collect();
    let queue = Mutex::new(queue);
    let cells = Mutex::new(Vec::new());
    let next = || queue.lock().unwrap().pop_front();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((event, release)) = next() {
                    let cell = run(event, release);
                    cells.lock().unwrap().push(cell);
                }
            });
        }
    });
    let mut cells = cells.into_inner().unwrap();
    cells.sort_by_key(|cell| (cell.event, cell.release as u8));
    cells
}

fn run(event: Event, release: Release) -> Cell {
    let mut scene = event.prepare(release);
    let mark = scene.kubelet.mark();
    let start = Instant::now();
    event.happen(&mut scene);
    scene.wait_registered();
    let seconds = start.elapsed().as_secs_f64();
    let counts = scene.settled(mark);
    scene.wait_registered();
    Cell {
        event,
        release,
        counts,
        seconds,
    }
}

fn complaint(cell: &Cell) -> Option<String> {
    let seen = (cell.counts.registrations, cell.counts.deregistrations);
    let least = cell.event.least();
    (seen != least).then(|| {
        format!(
            "{}, {}: {seen:?} registrations and de-registrations, {least:?} would do; {:?}",
            cell.event.words(),
            table::number(cell.release),
            cell.counts
        )
    })
}

bed::kubelet_process!();
bed::registrar_program!();
