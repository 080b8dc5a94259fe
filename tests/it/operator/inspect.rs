//! `inspect`: what a driver says of itself, and the rules that it breaks.

use std::time::Duration;

use bed::driver::{Answer, Call, Listening};
use bed::{Behaviour, FakeDriver};
use serde_json::Value;
use tonic::Code;

use crate::scene::operator::{NAME, Scene, stderr, stdout};

/// Runs inspect on a driver with this behaviour.
fn inspect(behaviour: Behaviour, more: &[&str]) -> std::process::Output {
    inspect_within("20s", behaviour, more)
}

fn inspect_within(
    request_timeout: &str,
    behaviour: Behaviour,
    more: &[&str],
) -> std::process::Output {
    let defaults = format!("[defaults]\nrequest_timeout = {request_timeout:?}\n");
    let scene = Scene::new(&[], &defaults);
    let driver: FakeDriver = scene.node.behaving("x", behaviour);
    let socket = driver.path().display().to_string();
    let mut arguments = vec!["inspect"];
    arguments.extend(more);
    arguments.push(&socket);
    scene.registrar.run_cli(arguments)
}

#[test]
fn a_healthy_driver_is_shown_whole_and_is_0() {
    let behaviour = Behaviour {
        max_volumes: 7,
        ..Behaviour::named(NAME).with_topology("topology.example.com/rack", "r1")
    };
    let output = inspect(behaviour, &[]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in [
        "name          local.csi.paas.cucloud",
        "version       1.2.3",
        "node id       node-1",
        "volume limit  7",
        "topology      topology.example.com/rack = r1",
        "plugin can    VOLUME_ACCESSIBILITY_CONSTRAINTS",
        " ms  GetPluginInfo",
        " ms  NodeGetInfo",
        "the driver can be registered",
    ] {
        assert!(said.contains(words), "{words:?} is not in {said}");
    }
    assert!(
        !said.contains("fault") && !said.contains('\u{1b}'),
        "{said}"
    );
}

#[test]
fn json_has_the_same() {
    let output = inspect(Behaviour::named(NAME), &["--json"]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["usable"], true);
    assert_eq!(said["name"], NAME);
    assert_eq!(said["node_id"], "node-1");
    assert_eq!(said["max_volumes"], 0);
    assert_eq!(said["calls"].as_array().unwrap().len(), 5);
    assert!(said["calls"][0]["milliseconds"].as_f64().unwrap() > 0.0);
    assert_eq!(said["breaches"], Value::Array(Vec::new()));
}

#[test]
fn each_rule_that_is_broken_is_named_and_is_1() {
    let named = || Behaviour::named(NAME);
    for (behaviour, words) in [
        (
            Behaviour::named("../\u{1b}[2J"),
            "fault: GetPluginInfo: the name \"../\\u{1b}[2J\"",
        ),
        (
            Behaviour {
                node_id: String::new(),
                ..named()
            },
            "fault: NodeGetInfo: the node id is empty",
        ),
        (
            named().with_topology("zone", "a b"),
            "fault: topology zone = \"a b\"",
        ),
        (
            Behaviour {
                node_get_info: Answer::Fails(Code::Unimplemented),
                ..named()
            },
            "fault: the driver has no Node service",
        ),
        (
            Behaviour {
                get_plugin_info: Answer::Fails(Code::Internal),
                ..named()
            },
            "fault: GetPluginInfo failed: Internal",
        ),
        // 63 characters are right, but not below this node's long directories.
        (Behaviour::named("x".repeat(63)), "is too long"),
    ] {
        let output = inspect(behaviour, &[]);
        let said = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{words}: {said}");
        assert!(said.contains(words), "{words:?} is not in {said}");
        assert!(said.contains("cannot be registered") && !said.contains('\u{1b}'));
    }
}

#[test]
fn what_does_not_keep_a_driver_from_the_kubelet_is_a_warning() {
    let behaviour = Behaviour {
        vendor_version: String::new(),
        probe: bed::driver::Probe::NotReady,
        max_volumes: -1,
        ..Behaviour::named(NAME)
    };
    let output = inspect(behaviour, &[]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for words in [
        "warning: GetPluginInfo: vendor_version is empty",
        "warning: Probe: ",
        "warning: NodeGetInfo: max_volumes_per_node is -1",
        "volume limit  -1 (the cluster decides)",
    ] {
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn a_slow_node_get_info_is_waited_for_and_said_meanwhile() {
    let slow = Behaviour::named(NAME).taking(Call::NodeGetInfo, Duration::from_millis(900));
    let output = inspect_within("300ms", slow, &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("node id       node-1"));
    let words = "NodeGetInfo has taken longer than 300ms; waiting up to 2m for it";
    assert!(stderr(&output).contains(words), "{output:?}");
}

#[test]
fn a_socket_that_nobody_answers_on_is_said_on_stderr() {
    let refuses = Behaviour {
        listening: Listening::Refuses,
        ..Behaviour::named(NAME)
    };
    let mute = Behaviour {
        listening: Listening::Mute,
        ..Behaviour::named(NAME)
    };
    for (behaviour, words) in [
        (refuses, "no process listens on"),
        (mute, "took longer than 500ms"),
    ] {
        let output = inspect_within("500ms", behaviour, &[]);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            output.stdout.is_empty() && stderr(&output).contains(words),
            "{output:?}"
        );
    }
    let scene = Scene::new(&[], "");
    let output = scene
        .registrar
        .run_cli(["inspect", "unix:///nowhere/csi.sock"]);
    assert!(
        stderr(&output).contains("the socket /nowhere/csi.sock does not exist"),
        "{output:?}"
    );
}
