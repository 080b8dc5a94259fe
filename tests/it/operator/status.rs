//! `status` and `status --watch` without a terminal.

use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

use bed::scene::{NAME, SOON};
use bed::{Process, Scene, stdout};
use nix::sys::signal::Signal;

use crate::setup;

fn watch(scene: &Scene, more: &[&str]) -> Process {
    let mut command = scene.registrar.command("status");
    command.arg("--watch").args(more);
    Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))
}

#[test]
fn the_table_in_a_pipe_is_neither_wrapped_nor_coloured() {
    let long = "a-driver-with-quite-a-long-id.csi.example.com";
    let scene = setup().drivers(&[NAME, long]).started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let output = scene.registrar.run_cli(["status"]);
    assert_eq!(output.status.code(), Some(1));
    let table = stdout(&output);
    assert!(table.starts_with("DRIVER"), "{table}");
    let waiting = format!("  waiting for {}", scene.node.csi_socket(long).display());
    assert!(
        table.lines().any(|line| line.starts_with(&waiting)),
        "{table}"
    );
    assert!(table.lines().any(|line| line == long), "{table}");
    assert!(
        table.contains("node-1") && table.contains("  waiting for"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "{table}");
}

#[test]
fn watching_prints_a_block_for_each_change_and_ends_well_when_interrupted() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &[]);
    let mut lines = BufReader::new(child.stdout()).lines();
    let mut until = |words: &str| {
        lines
            .by_ref()
            .map(Result::unwrap)
            .find(|line| line.contains(words))
            .unwrap_or_else(|| panic!("no {words}"))
    };
    until("waiting-for-driver");
    let _driver = scene.node.driver(NAME);
    until("waiting-for-kubelet");
    let _kubelet = scene.node.kubelet();
    until("registered");
    child.signal(Signal::SIGINT);
    let status = child.wait(SOON);
    assert_eq!(status.code(), Some(0));
}

#[test]
fn watching_as_json_is_one_object_a_line() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &["--json"]);
    let mut lines = BufReader::new(child.stdout()).lines();
    bed::Status::parse(lines.next().unwrap().unwrap().as_bytes());
    let _driver = scene.node.driver(NAME);
    // An extra line may say that the directory exists and the socket does not yet.
    let phase = lines
        .map(|line| bed::Status::parse(line.unwrap().as_bytes()))
        .map(|status| status.driver(NAME).unwrap().phase.clone())
        .find(|phase| phase != "waiting-for-driver");
    assert_eq!(phase.as_deref(), Some("waiting-for-kubelet"));
    child.signal(Signal::SIGINT);
    assert_eq!(child.wait(SOON).code(), Some(0));
}

#[test]
fn watching_fails_when_the_daemon_stops_and_says_so() {
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &[]);
    let mut first = [0; 6];
    let mut stdout = child.stdout();
    stdout.read_exact(&mut first).unwrap();
    scene.registrar.stop();
    let output = child.output();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("the daemon has stopped") || said.contains("stopping"),
        "{said}"
    );
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &[]);
    drop(child.stdout());
    let _driver = scene.node.driver(NAME);
    let status = child.wait(SOON);
    assert_eq!(status.code(), Some(0));
}
