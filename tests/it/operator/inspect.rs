//! `inspect`: a driver's own report, and its warnings. `driver_faults.rs` has the faults.

use std::time::Duration;

use bed::driver::Call;
use bed::scene::NAME;
use bed::{Behaviour, FakeDriver, stderr, stdout};
use serde_json::Value;

use crate::setup;

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
    let scene = setup().drivers(&[]).more(&defaults).set();
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
fn a_topology_that_kubernetes_refuses_is_named_and_is_1() {
    let output = inspect(Behaviour::named(NAME).with_topology("zone", "a b"), &[]);
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("fault: topology zone = \"a b\""), "{said}");
    assert!(said.contains("cannot be registered"), "{said}");
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
fn a_socket_that_does_not_exist_is_named_on_stderr() {
    let scene = setup().drivers(&[]).set();
    let output = scene
        .registrar
        .run_cli(["inspect", "unix:///nowhere/csi.sock"]);
    assert!(
        stderr(&output).contains("the socket /nowhere/csi.sock does not exist"),
        "{output:?}"
    );
}
