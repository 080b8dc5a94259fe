//! The other end of [`KubeletProcess`](super::KubeletProcess): commands on stdin, entries on stdout.

use std::fs;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::in_process::TestKubelet;
use super::ledger::{Entry, Ledger};
use super::settings::{Faults, Release, Settings};

/// Set in the environment of an executable that is to become a kubelet.
pub(super) const ASKED: &str = "BED_BECOME_KUBELET";

/// One line on stdin.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Command {
    /// The first line.
    Start(Box<Start>),
    Faults(Faults),
    /// Changes nothing: the answer to every command has the present faults.
    AskFaults,
    RemoveLabel(String),
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Start {
    pub(super) settings: Settings,
    pub(super) faults: Faults,
    pub(super) cluster: Cluster,
    pub(super) generation: u32,
    pub(super) origin: Duration,
}

/// One line on stdout.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    Entry(Entry),
    /// A command has taken effect, in the order of the commands; with the present faults.
    Done(Faults),
}

/// Becomes the kubelet and does not return, if [`KubeletProcess`](super::KubeletProcess) started this
/// executable for that; otherwise does nothing.
///
/// In test executables, [`kubelet_process!`](crate::kubelet_process) makes it a test for libtest.
/// Programs with their own `main` call it there first.
pub fn become_kubelet_if_asked() {
    if std::env::var_os(ASKED).is_some() {
        // libtest has already begun a line; entries need a new one.
        println!();
        kubelet_main();
        std::process::exit(0);
    }
}

/// A kubelet that runs until stdin ends.
///
/// With arguments `ROOT [1.24|1.35|1.36 [FILE]]` it starts at once, for manual use, and keeps the API
/// objects in FILE across restarts; otherwise the first line on stdin has its settings. Lines in and
/// out are JSON.
pub fn kubelet_main() {
    let mut lines = std::io::stdin().lock().lines();
    let by_hand = std::env::var_os(ASKED).is_none();
    let mut kept = None;
    let start = match by_hand.then(settings_from_arguments).flatten() {
        Some((settings, file)) => {
            let start = Start {
                settings,
                faults: Faults::default(),
                cluster: file.as_deref().and_then(read_cluster).unwrap_or_default(),
                generation: 0,
                origin: Ledger::new().origin(),
            };
            kept = file;
            start
        }
        None => match lines.next().map(|line| parse(&line.unwrap())) {
            Some(Command::Start(start)) => *start,
            Some(other) => panic!("the first command must be Start, not {other:?}"),
            None => return,
        },
    };
    let ledger = Ledger::continued(
        start.origin,
        start.generation,
        start.cluster,
        Box::new(move |entry| {
            if let (Some(file), Entry::Cluster(cluster)) = (&kept, &entry) {
                keep_cluster(file, cluster);
            }
            report(&Report::Entry(entry));
        }),
    );
    let kubelet = TestKubelet::go_on(start.settings, start.faults, ledger);
    report(&Report::Done(kubelet.faults()));
    for line in lines {
        match parse(&line.unwrap()) {
            Command::Start(_) => panic!("started already"),
            Command::Faults(faults) => kubelet.fault(|now| *now = faults),
            Command::AskFaults => {}
            Command::RemoveLabel(key) => kubelet.remove_label(&key),
        }
        report(&Report::Done(kubelet.faults()));
    }
}

/// By a rename, because other processes read the file.
fn keep_cluster(file: &Path, cluster: &Cluster) {
    let new = file.with_extension("new");
    fs::write(&new, serde_json::to_vec(cluster).unwrap()).unwrap();
    fs::rename(new, file).unwrap();
}

fn read_cluster(file: &Path) -> Option<Cluster> {
    let text = fs::read(file).ok()?;
    Some(serde_json::from_slice(&text).unwrap())
}

fn settings_from_arguments() -> Option<(Settings, Option<PathBuf>)> {
    let mut arguments = std::env::args_os().skip(1);
    let root = PathBuf::from(arguments.next()?);
    let release = match arguments.next().as_ref().and_then(|text| text.to_str()) {
        Some("1.24") => Release::V1_24,
        Some("1.35") => Release::V1_35,
        Some("1.36") | None => Release::V1_36,
        Some(other) => panic!("no such release: {other}"),
    };
    let file = arguments.next().map(PathBuf::from);
    Some((Settings::new(root, release), file))
}

fn parse(line: &str) -> Command {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("no command: {line}: {error}"))
}

fn report(report: &Report) {
    let mut line = serde_json::to_string(report).unwrap();
    line.push('\n');
    // Not println!: libtest would capture it on the test's thread.
    let mut stdout = std::io::stdout().lock();
    let written = stdout
        .write_all(line.as_bytes())
        .and_then(|()| stdout.flush());
    if written.is_err() {
        // No process reads the output any more, so the kubelet can end.
        std::process::exit(0);
    }
}
