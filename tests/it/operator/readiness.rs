//! examples/readiness: the readiness of one driver for node-problem-detector and
//! node-readiness-controller.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Scene, eventually, free_port, has_program, stderr, stdout};
use serde_json::Value;

use crate::{setup, yaml};

const OK: i32 = 0;
const NOT_OK: i32 = 1;
const UNKNOWN: i32 = 2;

fn example(name: &str) -> PathBuf {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/readiness");
    examples.join(name)
}

/// Runs the plugin as node-problem-detector does: its exit code, and the first line of its output.
fn check(arguments: &[&str]) -> (i32, String) {
    let output = plugin(arguments).output().unwrap();
    assert_eq!(stderr(&output), "", "{arguments:?}");
    let said = stdout(&output);
    assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    (output.status.code().unwrap(), said.trim_end().to_owned())
}

/// Over TCP without any program but bash.
fn plugin(arguments: &[&str]) -> Command {
    let mut command = Command::new("/bin/bash");
    command
        .arg(example("check-storage-driver.sh"))
        .args(arguments);
    if !arguments
        .iter()
        .any(|argument| argument.starts_with("unix:"))
    {
        command.env("PATH", "/nowhere");
    }
    command
}

/// A driver is ready, another does not run, a third is not known, and then the daemon ends.
fn follow(mut scene: Scene, address: &str) {
    let _kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    let ready = (OK, format!("{NAME} is ready"));
    eventually("the driver is ready", SOON, || {
        let found = check(&[NAME, address]);
        if found == ready {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    });
    let (code, words) = check(&[OTHER, address]);
    assert_eq!(code, NOT_OK, "{words}");
    assert!(
        words.starts_with(&format!("{OTHER}: waiting-for-driver: ")),
        "{words}"
    );
    drop(driver);
    eventually("the driver is not ready", SOON, || {
        let (code, words) = check(&[NAME, address]);
        if code == NOT_OK { Ok(()) } else { Err(words) }
    });
    let (code, words) = check(&["unknown", address]);
    assert_eq!(code, UNKNOWN, "{words}");
    assert!(
        words.ends_with("the registrar has no driver of this id"),
        "{words}"
    );
    scene.registrar.stop();
    let (code, words) = check(&[NAME, address]);
    assert_eq!(code, UNKNOWN, "{words}");
    assert!(words.contains("does not answer"), "{words}");
}

#[test]
fn the_plugin_follows_a_driver_over_a_unix_socket() {
    if !has_program("curl") {
        return;
    }
    let scene = setup().drivers(&[NAME, OTHER]).http().started();
    let address = format!("unix:{}", scene.http().display());
    follow(scene, &address);
}

#[test]
fn the_plugin_follows_a_driver_over_tcp() {
    let address = format!("127.0.0.1:{}", free_port());
    let mut scene = setup().drivers(&[NAME, OTHER]).set();
    scene.listen(&[NAME, OTHER], &address);
    scene.registrar.start();
    follow(scene, &address);
}

#[test]
fn the_plugin_knows_nothing_of_an_id_that_is_none() {
    for arguments in [
        &[][..],
        &[""],
        &["a b"],
        &["../healthz"],
        &["a\r\nX: y"],
        &["%2e"],
    ] {
        let output = plugin(arguments).output().unwrap();
        let code = output.status.code();
        assert_eq!(code, Some(UNKNOWN), "{arguments:?}: {output:?}");
    }
}

#[test]
fn the_plugin_says_that_a_unix_socket_needs_curl() {
    let mut command = plugin(&[NAME, "unix:/run/x.sock"]);
    let output = command.env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(UNKNOWN), "{output:?}");
    assert!(
        stdout(&output).contains("curl is not installed"),
        "{output:?}"
    );
}

#[test]
fn the_configuration_runs_the_plugin_within_its_time() {
    let text = fs::read_to_string(example("storage-driver-monitor.json")).unwrap();
    let monitor: Value = serde_json::from_str(&text).unwrap();
    let rule = &monitor["rules"][0];
    assert_eq!(rule["condition"], monitor["conditions"][0]["type"]);
    assert!(
        rule["path"]
            .as_str()
            .unwrap()
            .ends_with("/check-storage-driver.sh")
    );
    assert_eq!(rule["timeout"], monitor["pluginConfig"]["timeout"]);
    let script = fs::read_to_string(example("check-storage-driver.sh")).unwrap();
    assert!(
        script.contains("SECONDS_TO_WAIT=3"),
        "less than {}",
        rule["timeout"]
    );
}

#[test]
fn the_reporter_asks_for_the_driver_and_writes_the_condition_of_the_rule() {
    let text = fs::read_to_string(example("node-readiness.yaml")).unwrap();
    let documents: Vec<Value> = text.split("\n---\n").map(yaml::parse).collect();
    let of_kind = |kind: &str| {
        let mut documents = documents.iter();
        documents.find(|document| document["kind"] == kind).unwrap()
    };
    let pod = &of_kind("DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(pod["hostNetwork"], true);
    let env = pod["containers"][0]["env"].as_array().unwrap();
    let variable = |name: &str| {
        let mut env = env.iter();
        &env.find(|variable| variable["name"] == name).unwrap()["value"]
    };
    assert_eq!(
        *variable("CHECK_ENDPOINT"),
        "http://127.0.0.1:9809/readyz/nfs.csi.k8s.io"
    );
    let rule = &of_kind("NodeReadinessRule")["spec"];
    assert_eq!(rule["conditions"][0]["type"], *variable("CONDITION_TYPE"));
    assert_eq!(rule["nodeSelector"]["matchLabels"], pod["nodeSelector"]);
    assert_eq!(rule["taint"]["effect"], "NoSchedule");
}
