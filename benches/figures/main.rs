//! How fast and how small: measures every figure on the release binary, as a process on real sockets.
//!
//! `cargo bench` runs it; `cargo bench -- --help` says what else it can do. A time is never
//! asserted: the exit code only says whether everything could be measured.

mod contender;
mod figure;
mod machine;
mod options;
mod outcome;
mod page;
mod plot;
mod release;
mod results;
mod rows;
mod scene;
mod spread;
mod table;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::contender::Contender;
use crate::figure::Row;
use crate::machine::Machine;
use crate::options::{Options, USAGE};
use crate::outcome::{Outcome, attempt};
use crate::results::{Line, Results};
use crate::rows::growth::Cost;
use crate::rows::{
    appearing, asking, binary, growth, idling, mending, restarting, starting, storming, volumes,
};
use crate::table::Table;

/// What cargo has built along with us, which tells where it builds.
const BUILT: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// What sysexits.h calls wrong usage.
const USAGE_CODE: u8 = 64;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(options) if options.help => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(USAGE_CODE);
        }
    };
    let program = match release::binary() {
        Ok(program) => program,
        Err(error) => {
            eprintln!("nothing to measure: {error}");
            return ExitCode::FAILURE;
        }
    };
    raise_descriptors();
    let results = measure(program, &options);
    println!("{}", results.machine.words());
    println!("\n{}", Table::of(&results.lines).text());
    if let Err(error) = write(&results, &options) {
        eprintln!("cannot write the results: {error}");
        return ExitCode::FAILURE;
    }
    if results.could_measure() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn measure(program: PathBuf, options: &Options) -> Results {
    let mut results = Results {
        machine: Machine::here(),
        quick: options.quick,
        lines: Vec::new(),
        growth: Vec::new(),
        peer_growth: Vec::new(),
    };
    let ours = Contender::Ours(program);
    let peer = options.peer.clone().map(Contender::Peer);
    for row in Row::ALL.into_iter().filter(|row| options.wants(*row)) {
        let start = Instant::now();
        let outcomes = run(row, &ours, options.quick, &mut results.growth);
        let mut peers = peer
            .as_ref()
            .map(|peer| run(row, peer, options.quick, &mut results.peer_growth).into_iter());
        eprintln!("{} took {:.1} s", row.name(), start.elapsed().as_secs_f64());
        results
            .lines
            .extend(row.figures().zip(outcomes).map(|(figure, ours)| Line {
                figure,
                ours,
                peer: peers.as_mut().and_then(Iterator::next),
            }));
    }
    results
}

/// An outcome for each figure of the row, in their order.
fn run(row: Row, contender: &Contender, quick: bool, growth: &mut Vec<Cost>) -> Vec<Outcome> {
    // A peer may need a second for what takes us a millisecond.
    let few = quick || contender.is_peer();
    let runs = |many: usize, some: usize| if few { some } else { many };
    let measured = attempt(|| match row {
        Row::Appear => vec![appearing::measure(contender, runs(300, 10))],
        Row::Link => vec![mending::link(contender, runs(300, 12))],
        Row::Socket => vec![mending::socket(contender, runs(300, 12))],
        Row::Start => vec![starting::measure(contender, runs(300, 12))],
        Row::GetInfo => asking::measure(contender, if quick { 1 } else { 5 }).into(),
        Row::Storm => {
            let seconds = if quick { 1 } else { 10 };
            storming::measure(contender, Duration::from_secs(seconds)).into()
        }
        Row::Memory => grow(contender, quick, growth),
        Row::Wakeups => {
            let (windows, seconds) = if quick { (1, 5) } else { (6, 60) };
            let counts: Vec<usize> = row.figures().filter_map(|figure| figure.drivers).collect();
            idling::measure(contender, &counts, windows, Duration::from_secs(seconds))
        }
        Row::Binary => vec![binary::measure(contender)],
        Row::Restart => vec![restarting::measure(contender, if quick { 1 } else { 10 })],
        Row::Volumes => volumes::measure(contender, runs(30, 3)).into(),
    });
    measured.unwrap_or_else(|why| {
        let failed = |_| Outcome::Failed(why.clone());
        row.figures().map(failed).collect()
    })
}

fn grow(contender: &Contender, quick: bool, growth: &mut Vec<Cost>) -> Vec<Outcome> {
    let figures = Row::Memory.figures();
    let outcomes = figures.filter_map(|figure| figure.drivers).map(|drivers| {
        if let Some(why) = growth::left_out(contender, drivers, quick) {
            return Outcome::senseless(why);
        }
        let runs = match drivers {
            _ if quick => 1,
            0..=10 => 10,
            11..=100 => 5,
            _ => 2,
        };
        let cost = growth::measure(contender, drivers, runs);
        let memory = cost.memory();
        growth.push(cost);
        memory
    });
    outcomes.collect()
}

fn write(results: &Results, options: &Options) -> io::Result<()> {
    let target = target();
    let json = options.json.clone();
    let json = json.unwrap_or_else(|| target.join("figures.json"));
    fs::write(&json, format!("{:#}\n", results.json()))?;
    let plots = match (&options.plots, options.docs) {
        (Some(directory), _) => directory.clone(),
        (None, true) => Path::new(ROOT).join("docs"),
        (None, false) => target.join("figures"),
    };
    fs::create_dir_all(&plots)?;
    let drawn = plot::draw(results, &plots)?;
    if options.docs {
        page::write(results)?;
    }
    for file in std::iter::once(json).chain(drawn) {
        println!("wrote {}", file.display());
    }
    Ok(())
}

/// The directory that cargo builds into: it holds the profile's, which holds the binary.
fn target() -> PathBuf {
    let profile = Path::new(BUILT).parent();
    let target = profile.and_then(Path::parent);
    target.unwrap_or(Path::new(ROOT)).to_owned()
}

/// A thousand drivers and a thousand connections are more than the usual limit.
fn raise_descriptors() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        eprintln!("cannot raise the limit of open files: {error}");
    }
}
