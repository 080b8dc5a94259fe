//! One run: rounds of faults and calms, and the report when an invariant does not hold.

use std::fmt::Write as _;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::{Duration, Instant};

use bed::Dice;
use bed::kubelet::Mark;
use bed::scene::QUIET;

use crate::allowance::Allowance;
use crate::calm::Footprint;
use crate::disk::Disk;
use crate::fault::{FIRST, Fault};
use crate::scene::Scene;
use crate::tally::Tally;

/// Faults of a round. A single fault may cost no more than docs/survival.md says.
const FAULTS: [u64; 7] = [1, 1, 1, 2, 2, 4, 6];
/// The longest pause between two faults, in milliseconds.
const PAUSE: u64 = 500;
/// How much of the daemon's log a report has.
const TAIL: usize = 150;

/// The report so far.
struct Story {
    start: Instant,
    tally: Tally,
    lines: String,
    /// The beginning of the last round.
    mark: Mark,
    /// How much of the log was checked.
    checked: usize,
}

/// One fault of a round, and how long it is until the next.
type Step = (Fault, Duration);

/// Returns what happened.
pub(crate) fn run(seed: u64, length: Duration) -> Tally {
    println!("CHAOS_SEED={seed}");
    let mut dice = Dice::new(seed);
    let mut scene = Scene::set(&mut dice);
    let mut story = Story {
        start: Instant::now(),
        tally: Tally::on(scene.terms),
        lines: String::new(),
        mark: Mark::default(),
        checked: 0,
    };
    let lived = catch_unwind(AssertUnwindSafe(|| {
        live(&mut scene, &mut dice, &mut story, length);
    }));
    println!(
        "CHAOS_SEED={seed} {:?}: {} faults in {:.1?}: {}",
        scene.terms,
        story.tally.total(),
        story.start.elapsed(),
        story.tally
    );
    if let Err(panic) = lived {
        report(seed, &scene, &story);
        // The scene ends first: the report has its log already.
        drop(scene);
        resume_unwind(panic);
    }
    story.tally
}

fn live(scene: &mut Scene, dice: &mut Dice, story: &mut Story, length: Duration) {
    scene.wait_calm();
    let usual = scene.footprint();
    for faults in FIRST {
        let possible = faults
            .iter()
            .filter(|fault| fault.is_possible(scene.terms))
            .map(|fault| (*fault, Duration::ZERO));
        let possible: Vec<Step> = possible.collect();
        if !possible.is_empty() {
            round(scene, story, usual, &possible);
        }
    }
    while story.start.elapsed() < length {
        let steps = (0..dice.pick(&FAULTS)).map(|_| {
            let fault = Fault::roll(dice, scene.terms);
            (fault, Duration::from_millis(dice.below(PAUSE)))
        });
        let steps: Vec<Step> = steps.collect();
        round(scene, story, usual, &steps);
    }
    scene.stays_calm(QUIET, story.mark);
    scene.check_log(story.checked..scene.log_length(), &[]);
}

fn round(scene: &mut Scene, story: &mut Story, usual: Footprint, steps: &[Step]) {
    story.mark = scene.kubelet.mark();
    let mut allowance = Allowance::default();
    for &(fault, pause) in steps {
        story.tell(&format!("{fault:?}"));
        allowance.add(fault);
        let before = scene.log_length();
        if fault.happen(scene) {
            story.tally.count(fault);
        }
        allowance.add_oblivious_starts(take(&mut scene.oblivious_starts));
        // With other faults in the round, it may not happen.
        if steps.len() == 1 {
            fault.wait_met(scene, before);
        }
        thread::sleep(pause);
    }
    allowance.add_recoveries(scene.heal());
    allowance.add_oblivious_starts(take(&mut scene.oblivious_starts));
    story.tell("healed");
    scene.wait_calm();
    story.tell("calm");
    if let Err(why) = allowance.check(scene.kubelet.counts_since(story.mark)) {
        panic!("{why}");
    }
    scene.check(usual);
    // Up to here: a fault explains errors of its own round only.
    let end = scene.log_length();
    scene.check_log(story.checked..end, &explained(steps));
    story.checked = end;
}

/// Words of error lines that the faults explain.
fn explained(steps: &[Step]) -> Vec<&'static str> {
    let mut explained = Vec::new();
    for (fault, _) in steps {
        match fault {
            Fault::NoSpace(Disk::Run, _) => {
                explained.extend(["http is not served", "do not reach the daemon"]);
            }
            Fault::FewDescriptors(..) => explained.extend([
                "http is not served",
                "do not reach the daemon",
                "refused the changed configuration",
            ]),
            _ => {}
        }
    }
    explained
}

impl Story {
    fn tell(&mut self, words: &str) {
        let at = self.start.elapsed().as_secs_f64();
        writeln!(self.lines, "{at:8.3} {words}").unwrap();
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
