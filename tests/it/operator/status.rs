//! `status` and `status --watch` without a terminal.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use bed::scene::{NAME, SOON};
use bed::{Process, Scene, stderr, stdout};
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
    until(&mut lines, "waiting-for-driver");
    let _driver = scene.node.driver(NAME);
    until(&mut lines, "waiting-for-kubelet");
    let _kubelet = scene.node.kubelet();
    until(&mut lines, "registered");
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

/// Reads lines up to the line with these words.
#[track_caller]
fn until(lines: &mut impl Iterator<Item = std::io::Result<String>>, words: &str) -> String {
    let mut lines = lines.map(Result::unwrap);
    lines
        .find(|line| line.contains(words))
        .unwrap_or_else(|| panic!("no {words}"))
}

#[test]
fn watching_outlives_a_restart_of_the_daemon_and_says_once_that_it_is_away() {
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &[]);
    let mut blocks = BufReader::new(child.stdout()).lines();
    let mut errors = BufReader::new(child.stderr()).lines();
    until(&mut blocks, "waiting-for-driver");
    for _ in 0..2 {
        scene.registrar.stop();
        let said = errors.next().unwrap().unwrap();
        assert!(
            said.starts_with("warning: ") && said.ends_with("; waiting for the daemon"),
            "{said}"
        );
        scene.registrar.start();
        // A whole block, with its titles.
        until(&mut blocks, "DRIVER");
        until(&mut blocks, "waiting-for-driver");
    }
    let _driver = scene.node.driver(NAME);
    until(&mut blocks, "waiting-for-kubelet");
    child.signal(Signal::SIGINT);
    assert_eq!(child.wait(SOON).code(), Some(0));
    assert_eq!(errors.count(), 0);
}

#[test]
fn watching_as_json_prints_nothing_while_the_daemon_is_away() {
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &["--json"]);
    let mut lines = BufReader::new(child.stdout()).lines();
    let mut errors = BufReader::new(child.stderr()).lines();
    let mut next = || bed::Status::parse(lines.next().unwrap().unwrap().as_bytes());
    assert_eq!(next().drivers.len(), 1);
    scene.registrar.kill9();
    errors.next().unwrap().unwrap();
    scene.node.write_default_config(&[NAME, "a"], "");
    scene.registrar.start();
    // Every line is an object; the first after the restart has the new configuration.
    assert_eq!(next().drivers.len(), 2);
    child.signal(Signal::SIGINT);
    assert_eq!(child.wait(SOON).code(), Some(0));
}

#[test]
fn watching_finds_the_daemon_in_a_runtime_directory_that_was_recreated() {
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &[]);
    let mut blocks = BufReader::new(child.stdout()).lines();
    let mut errors = BufReader::new(child.stderr()).lines();
    until(&mut blocks, "waiting-for-driver");
    scene.registrar.stop();
    fs::remove_dir_all(scene.node.runtime_dir()).unwrap();
    errors.next().unwrap().unwrap();
    fs::create_dir(scene.node.runtime_dir()).unwrap();
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    until(&mut blocks, "waiting-for-kubelet");
}

#[test]
fn watching_ends_well_when_interrupted_while_the_daemon_is_away_or_hangs() {
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut child = watch(&scene, &[]);
    let mut errors = BufReader::new(child.stderr()).lines();
    let mut blocks = BufReader::new(child.stdout()).lines();
    until(&mut blocks, "waiting");
    scene.registrar.signal(Signal::SIGSTOP);
    let mut before = watch(&scene, &[]);
    // Until it asks the daemon, a signal may come before the handlers.
    thread::sleep(Duration::from_millis(500));
    before.signal(Signal::SIGINT);
    assert_eq!(before.wait(SOON).code(), Some(0));
    scene.registrar.kill9();
    errors.next().unwrap().unwrap();
    child.signal(Signal::SIGINT);
    assert_eq!(child.wait(SOON).code(), Some(0));
}

#[test]
fn watching_needs_a_daemon_and_the_named_drivers_at_its_start() {
    let mut scene = setup().drivers(&[NAME, "a"]).set();
    let fails = |scene: &Scene, driver: &str| {
        let output = scene.registrar.run_cli(["status", "--watch", driver]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        stderr(&output)
    };
    assert!(fails(&scene, NAME).contains("is not running"));
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    let said = fails(&scene, "b");
    assert!(said.contains("the daemon has no driver \"b\""), "{said}");
    let strict = scene.registrar.run_cli(["status", "--watch", "--strict"]);
    assert_eq!(strict.status.code(), Some(64), "{strict:?}");
}

#[test]
fn watching_named_drivers_shows_these_and_says_when_one_is_removed() {
    let scene = setup().drivers(&[NAME, "a"]).started();
    scene.phase(NAME, "waiting-for-driver");
    let mut json = watch(&scene, &["--json", NAME]);
    let mut objects = BufReader::new(json.stdout()).lines();
    let mut next = || bed::Status::parse(objects.next().unwrap().unwrap().as_bytes());
    let mut child = watch(&scene, &[NAME]);
    let mut blocks = BufReader::new(child.stdout()).lines();
    assert_eq!(next().drivers.len(), 1);
    until(&mut blocks, NAME);
    scene.node.write_default_config(&["a"], "");
    scene.registrar.succeed(&["reload"]);
    let gone = format!("the daemon no longer has the driver \"{NAME}\"");
    until(&mut blocks, &gone);
    while !next().drivers.is_empty() {}
    scene.node.write_default_config(&[NAME, "a"], "");
    scene.registrar.succeed(&["reload"]);
    until(&mut blocks, "waiting-for-driver");
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
