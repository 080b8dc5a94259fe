//! `doctor`: for each broken node, its first finding names the true cause.

mod directories;
mod driver;
mod kubelet;
mod mount_propagation;
mod permissions;

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::Output;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Behaviour, FakeDriver, Registrar, Scene, stdout};
use serde_json::Value;

use crate::{PROGRAM, setup};

/// An empty proc file system: it shows no process of this machine.
fn proc(scene: &Scene) -> PathBuf {
    let proc = scene.node.root().join("proc");
    fs::create_dir_all(&proc).unwrap();
    proc
}

pub(super) fn doctor(scene: &Scene) -> Output {
    let proc = proc(scene).display().to_string();
    scene
        .registrar
        .run_cli(["doctor", "--json", "--proc", &proc])
}

pub(super) fn findings(output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(report["healthy"], output.status.success(), "{report}");
    report["findings"].as_array().unwrap().clone()
}

/// The first finding is a fault of this check, with these words, and has a fix.
#[track_caller]
fn first_is(output: &Output, check: &str, words: &str) {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let findings = findings(output);
    let first = &findings[0];
    assert_eq!(first["level"], "fault", "{findings:#?}");
    assert_eq!(first["check"], check, "{findings:#?}");
    let found = first["found"].as_str().unwrap();
    assert!(found.contains(words), "{words:?} is not in {findings:#?}");
    assert!(!first["fix"].as_str().unwrap().is_empty(), "{findings:#?}");
}

/// The first finding's fix has these words.
#[track_caller]
fn fixed_by(output: &Output, words: &str) {
    let findings = findings(output);
    let fix = findings[0]["fix"].as_str().unwrap();
    assert!(fix.contains(words), "{words:?} is not in {findings:#?}");
}

/// The notes of `status`.
fn notes(scene: &Scene) -> Vec<String> {
    let output = scene.registrar.run_cli(["status", "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let notes = status["notes"].as_array().cloned().unwrap_or_default();
    let notes = notes.iter().filter_map(Value::as_str);
    notes.map(str::to_owned).collect()
}

/// The finding of this check, if there is exactly one.
#[track_caller]
fn only(findings: &[Value], check: &str) -> Value {
    let of_check = findings.iter().filter(|finding| finding["check"] == check);
    let of_check: Vec<&Value> = of_check.collect();
    assert_eq!(of_check.len(), 1, "{check}: {findings:#?}");
    of_check[0].clone()
}

#[track_caller]
pub(super) fn finds(scene: &Scene, check: &str, words: &str) {
    first_is(&doctor(scene), check, words);
}

#[test]
fn a_node_where_all_is_well_has_no_fault_and_is_0() {
    let scene = setup().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(findings(&output), [] as [Value; 0]);
    let proc = proc(&scene).display().to_string();
    let said = stdout(&scene.registrar.run_cli(["doctor", "--proc", &proc]));
    let mut lines = said.lines();
    assert_eq!(
        lines.next(),
        Some("No problems found (1 of 1 drivers ready).")
    );
    // No kubelet of this machine says how to ask it.
    assert!(
        lines.all(|line| line.starts_with("The cluster was not asked: ")),
        "{said}"
    );
}

#[test]
fn a_warning_is_no_fault() {
    let scene = setup().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let limits = proc(&scene).join("sys/fs/inotify");
    fs::create_dir_all(&limits).unwrap();
    fs::write(limits.join("max_user_instances"), "8\n").unwrap();
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(findings(&output)[0]["check"], "inotify");
}

#[test]
fn a_bad_configuration() {
    let scene = setup().set();
    scene.node.write_config("plugins_dir = \"here\"\n");
    finds(&scene, "config", "must be an absolute path");
}

#[test]
fn a_daemon_that_does_not_run() {
    let scene = setup().set();
    let _driver = scene.node.driver(NAME);
    finds(&scene, "daemon", "is not running");
}

#[test]
fn a_driver_that_is_configured_and_not_loaded() {
    let scene = setup().started();
    let _drivers = [scene.node.driver(NAME), scene.node.driver(OTHER)];
    let _kubelet = scene.node.kubelet();
    scene.phase(NAME, "registered");
    scene.node.write_default_config(&[NAME, OTHER], "");
    finds(&scene, "daemon", "does not have this driver yet");
}

#[test]
fn a_driver_that_was_withdrawn_by_hand() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    assert!(scene.registrar.run_cli(["withdraw", NAME]).status.success());
    scene.phase(NAME, "withdrawn");
    finds(&scene, "withdrawn", "by hand");
}

#[test]
fn a_link_of_another_owner() {
    let scene = setup().set();
    let _foreign = UnixListener::bind(scene.node.link(NAME)).unwrap();
    let mut scene = scene;
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "conflict");
    let output = doctor(&scene);
    let (ours, name) = (std::process::id(), fs::read_to_string("/proc/self/comm"));
    let owner = format!("pid {ours} ({}", name.unwrap().trim());
    let serves = format!(") serves {}", scene.node.link(NAME).display());
    for words in [owner, serves] {
        first_is(&output, "another owner", &words);
    }
    fixed_by(&output, "take-over");
}

#[test]
fn a_link_made_by_hand_that_leads_to_our_socket_is_a_warning_with_the_command_that_removes_it() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let by_hand = scene.node.plugins_registry().join("by-hand.sock");
    for target in [scene.node.reg_socket(NAME), scene.node.link(NAME)] {
        symlink(target, &by_hand).unwrap();
        let finding = only(&findings(&doctor(&scene)), "link");
        assert_eq!(finding["level"], "warning", "{finding}");
        assert_eq!(finding["driver"], NAME, "{finding}");
        assert_eq!(finding["fix"], format!("rm {}", by_hand.display()));
        let found = finding["found"].as_str().unwrap();
        assert!(found.contains("by-hand.sock also leads to"), "{found}");
        fs::remove_file(&by_hand).unwrap();
    }
    // Links to other files are no business of ours.
    symlink(scene.node.csi_socket(NAME), &by_hand).unwrap();
    let findings = findings(&doctor(&scene));
    assert!(
        findings.iter().all(|finding| finding["check"] != "link"),
        "{findings:#?}"
    );
}

#[test]
fn a_directory_in_the_place_of_the_link() {
    let scene = setup().started();
    fs::create_dir(scene.node.link(NAME)).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "conflict");
    finds(&scene, "another owner", "neither a socket nor a link");
}

/// The doctor must not take words in a path for a cause.
#[test]
fn words_in_a_path_do_not_change_the_fix() {
    let mut scene = setup().drivers(&[]).set();
    let registry = scene.node.root().join("who-serves-what");
    fs::create_dir(&registry).unwrap();
    let config = scene.node.default_config(&[]);
    scene.node.write_config(&format!(
        "{config}plugins_registry = {registry:?}\n[drivers.{NAME:?}]\n"
    ));
    scene.registrar.start();
    fs::create_dir(registry.join(format!("{NAME}-reg.sock"))).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "conflict");
    let output = doctor(&scene);
    first_is(&output, "another owner", "neither a socket nor a link");
    fixed_by(&output, "move the file or directory away");
}

#[test]
fn people_read_the_same_and_grep_finds_each_sentence_on_one_line() {
    let scene = setup().set();
    let proc = proc(&scene).display().to_string();
    let said = stdout(&scene.registrar.run_cli(["doctor", "--proc", &proc]));
    assert!(
        said.starts_with(&format!("fault: {NAME}: csi.sock\n  found waiting for")),
        "{said}"
    );
    let socket = scene.node.csi_socket(NAME).display().to_string();
    let fix = format!(
        "\n  fix   start the driver with the endpoint unix://{socket}, or correct csi_socket\n"
    );
    assert!(said.contains(&fix), "{said}");
}

/// The daemon's environment names another plugins_dir; its links have the same paths.
#[test]
fn the_status_of_a_daemon_with_another_plugins_dir_counts() {
    let mut scene = setup().set();
    let elsewhere = scene.node.root().join("elsewhere");
    let socket = elsewhere.join(NAME).join("csi.sock");
    let _driver = FakeDriver::start_in_new_directory(&socket, Behaviour::named(NAME));
    let kubelet = scene.node.kubelet();
    let daemon = Registrar::new(PROGRAM, &scene.node).with_env("NSDR_PLUGINS_DIR", &elsewhere);
    let ours = std::mem::replace(&mut scene.registrar, daemon);
    scene.registrar.start();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let output = ours.run_cli(["doctor", "--json"]);
    let findings = findings(&output);
    assert_eq!(output.status.code(), Some(0), "{findings:#?}");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    let found = findings[0]["found"].as_str().unwrap();
    assert!(found.contains(socket.to_str().unwrap()), "{found}");
}

#[test]
fn the_status_of_a_daemon_with_other_settings_counts() {
    let scene = setup().started();
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let root = scene.node.kubelet_root();
    let config = scene.node.default_config(&[NAME]);
    let elsewhere = scene.node.root().join("elsewhere");
    scene
        .node
        .write_config(&config.replace(&format!("{root:?}"), &format!("{elsewhere:?}")));
    let output = doctor(&scene);
    let findings = findings(&output);
    assert_eq!(output.status.code(), Some(0), "{findings:#?}");
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0]["check"], "config");
    assert_eq!(findings[0]["level"], "warning");
}
