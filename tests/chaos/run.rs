//! One run: rounds of faults and calms, and the report when an invariant does not hold.

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use bed::Dice;
use bed::kubelet::Mark;

use crate::allowance::Allowance;
use crate::disk::Disk;
use crate::fault::Fault;
use crate::scene::Scene;

/// Faults of a round. One that comes alone may cost no more than docs/survival.md says.
const FAULTS: [u64; 7] = [1, 1, 1, 2, 2, 4, 6];
/// The longest pause between two faults, in milliseconds.
const PAUSE: u64 = 500;
/// Longer than the registrar waits before its first announcement.
const QUIET: Duration = Duration::from_millis(3700);
/// How much of the daemon's log a report has.
const TAIL: usize = 150;

/// What happened so far.
#[derive(Default)]
struct Story {
    faults: Vec<Fault>,
    lines: String,
    /// The last round's beginning.
    mark: Mark,
}

pub(crate) fn run(seed: u64, length: Duration) {
    println!("CHAOS_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut scene = Scene::set(&mut dice);
    let mut story = Story::default();
    let start = Instant::now();
    let lived = catch_unwind(AssertUnwindSafe(|| {
        live(&mut scene, &mut dice, &mut story, start, length);
    }));
    println!(
        "CHAOS_SEED={seed} {:?}: {} faults in {:.1?}",
        scene.terms,
        story.faults.len(),
        start.elapsed()
    );
    if let Err(panic) = lived {
        report(seed, &scene, &story);
        // The scene goes first: the report has its log already.
        drop(scene);
        resume_unwind(panic);
    }
}

fn live(scene: &mut Scene, dice: &mut Dice, story: &mut Story, start: Instant, length: Duration) {
    scene.wait_calm();
    let usual = scene.footprint();
    while start.elapsed() < length {
        story.mark = scene.kubelet.mark();
        let mut allowance = Allowance::default();
        for _ in 0..dice.pick(&FAULTS) {
            let fault = Fault::roll(dice, scene.terms);
            story.tell(start, &format!("{fault:?}"));
            story.faults.push(fault);
            allowance.add(fault);
            fault.happen(scene);
            thread::sleep(Duration::from_millis(dice.below(PAUSE)));
        }
        allowance.add_recoveries(scene.heal());
        story.tell(start, "healed");
        scene.wait_calm();
        story.tell(start, "calm");
        if let Err(why) = allowance.check(scene.kubelet.counts_since(story.mark)) {
            panic!("{why}");
        }
        scene.check(usual, story.explained());
    }
    scene.stays_calm(QUIET, story.mark);
}

impl Story {
    fn tell(&mut self, start: Instant, words: &str) {
        writeln!(self.lines, "{:8.3} {words}", start.elapsed().as_secs_f64()).unwrap();
    }

    /// Words of log lines at level error that the faults explain.
    fn explained(&self) -> &'static [&'static str] {
        let no_place =
            |fault: &Fault| matches!(fault, Fault::NoSpace(Disk::Run) | Fault::FewDescriptors(_));
        if self.faults.iter().any(no_place) {
            &["http is not served"]
        } else {
            &[]
        }
    }
}

fn report(seed: u64, scene: &Scene, story: &Story) {
    let status = if scene.registrar_is_down {
        "the registrar is down".to_owned()
    } else {
        String::from_utf8_lossy(&scene.registrar.run_cli(["status", "--json"]).stdout).into_owned()
    };
    let log = scene.registrar.logs();
    let tail: Vec<&str> = log.lines().rev().take(TAIL).collect();
    let tail: Vec<&str> = tail.into_iter().rev().collect();
    let mut records = String::new();
    for record in scene.kubelet.since(story.mark) {
        let at = record.at.as_secs_f64();
        writeln!(records, "{at:8.3} {} {:?}", record.generation, record.event).unwrap();
    }
    eprintln!(
        "=== CHAOS_SEED={seed} plays it again; {:?}\n--- faults\n{}--- the kubelet, since the last round began\n{records}--- status\n{status}\n--- directories\n{}--- the end of the registrar's log\n{}\n===",
        scene.terms,
        story.lines,
        scene.listings(),
        tail.join("\n")
    );
}
