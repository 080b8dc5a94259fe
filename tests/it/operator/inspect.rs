//! `inspect`: a driver's own report, and its warnings. `driver_faults.rs` has the faults.

use std::time::Duration;

use bed::driver::{Answer, Call, Controller};
use bed::scene::NAME;
use bed::{Behaviour, FakeDriver, Scene, stderr, stdout};
use serde_json::{Value, json};
use tonic::Code;

use crate::{setup, yaml};

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

/// The driver's socket in the JSON of `inspect`, which must succeed.
#[track_caller]
fn found(scene: &Scene, driver: &str) -> String {
    let output = scene.registrar.succeed(&["inspect", "--json", driver]);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    said["socket"].as_str().unwrap().to_owned()
}

#[test]
fn a_driver_is_found_by_its_id_or_name_in_the_status_of_the_daemon() {
    let mut scene = setup().drivers(&["x", NAME]).set();
    let socket = scene.node.root().join("elsewhere/csi.sock");
    let tables = format!("[drivers.x]\ncsi_socket = {socket:?}\n[drivers.z]\n");
    scene.node.write_default_config(&[], &tables);
    scene.registrar.start();
    let _driver = FakeDriver::start_in_new_directory(socket.clone(), Behaviour::named(NAME));
    scene.phase("x", "waiting-for-kubelet");
    // The daemon knows the driver, whatever the configuration says now.
    scene.node.write_default_config(&[], "");
    for driver in ["x", NAME] {
        assert_eq!(found(&scene, driver), socket.display().to_string());
    }
    let said = stdout(&scene.registrar.succeed(&["inspect", "x"]));
    let row = format!("socket        {}\n", socket.display());
    assert!(said.contains(&row), "{said}");
    let output = scene.registrar.run_cli(["inspect", "y"]);
    assert_eq!(output.status.code(), Some(1));
    let words = "there is no file \"y\" in this directory, and no such driver: \
                 the daemon has no driver \"y\"; it has x, z";
    assert!(stderr(&output).contains(words), "{output:?}");
    // A driver of the daemon that does not run.
    let output = scene.registrar.run_cli(["inspect", "z"]);
    let words = format!(
        "the socket {} does not exist",
        scene.node.csi_socket("z").display()
    );
    assert!(stderr(&output).contains(&words), "{output:?}");
}

#[test]
fn without_a_daemon_a_driver_is_found_in_the_configuration() {
    let scene = setup().drivers(&[]).set();
    let socket = scene.node.root().join("elsewhere/csi.sock");
    let table = format!("[drivers.x]\ncsi_socket = {socket:?}\nname = {NAME:?}\n");
    scene.node.write_default_config(&[], &table);
    let _driver = FakeDriver::start_in_new_directory(socket.clone(), Behaviour::named(NAME));
    for driver in ["x", NAME] {
        assert_eq!(found(&scene, driver), socket.display().to_string());
    }
    let discovered = scene.named("nfs", "nfs.csi.k8s.io");
    assert_eq!(
        found(&scene, "nfs"),
        discovered.path().display().to_string()
    );
    let output = scene.registrar.run_cli(["inspect", "y"]);
    assert_eq!(output.status.code(), Some(1));
    let missing = format!("{} does not exist", scene.node.csi_socket("y").display());
    for words in [
        "there is no file \"y\" in this directory, and no such driver",
        "the configuration has no table [drivers.\"y\"]",
        &missing,
        "is not running",
    ] {
        assert!(stderr(&output).contains(words), "{words:?}: {output:?}");
    }
}

#[test]
fn a_file_wins_over_a_driver_of_the_same_name() {
    let scene = setup().drivers(&["x"]).started();
    scene.phase("x", "waiting-for-driver");
    let directory = scene.node.root().join("here");
    let driver = FakeDriver::start_in_new_directory(directory.join("x"), Behaviour::named(NAME));
    let mut command = scene.registrar.command("inspect");
    let output = command.arg("x").current_dir(&directory).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains(NAME), "{output:?}");
    drop(driver);
}

#[test]
fn a_directory_of_the_drivers_id_is_no_socket() {
    let scene = setup().drivers(&["x"]).set();
    let driver = scene.named("x", NAME);
    let mut command = scene.registrar.command("inspect");
    let plugins = scene.node.plugins_dir();
    let output = command.arg("x").current_dir(plugins).output().unwrap();
    let socket = driver.path().display().to_string();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains(&socket), "{output:?}");
}

fn with_controller(controller: Controller) -> Behaviour {
    Behaviour {
        controller,
        ..Behaviour::named(NAME)
    }
}

fn object(name: &str, attach_required: bool) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"attachRequired": attach_required, "volumeLifecycleModes": ["Persistent"]},
    })
}

/// The fields of a manifest with the comment signs before fields removed, as an operator would.
fn with_all_fields(manifest: &str) -> Value {
    let lines = manifest
        .lines()
        .map(|line| match line.trim_start().strip_prefix("# ") {
            Some(field) if field.starts_with("- ") => format!("    {field}"),
            Some(field) if is_field(field) => format!("  {field}"),
            _ => line.to_owned(),
        });
    yaml::parse(&lines.collect::<Vec<String>>().join("\n"))
}

/// Such as `podInfoOnMount: false`.
fn is_field(line: &str) -> bool {
    let field = line.split_once(": ");
    field.is_some_and(|(key, value)| {
        key.starts_with(|c: char| c.is_ascii_lowercase())
            && key.chars().all(|c| c.is_ascii_alphabetic())
            && !value.contains(' ')
    })
}

#[test]
fn the_csidriver_object_says_whether_the_driver_attaches_volumes() {
    let not_told = "warning: attachRequired is true, because the driver's answers do not tell it";
    let no_controller = "warning: attachRequired is false, because this process of the driver has no Controller service; a controller elsewhere may";
    for (controller, attach_required, warning) in [
        (Controller::Publishes, true, None),
        (Controller::Provisions, false, None),
        (Controller::Absent, false, Some(no_controller)),
        (Controller::Elsewhere, true, Some(not_told)),
        (Controller::Fails(Code::Internal), true, Some(not_told)),
    ] {
        let output = inspect(with_controller(controller), &["--csidriver"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let expected = object(NAME, attach_required);
        assert_eq!(yaml::parse(&stdout(&output)), expected, "{controller:?}");
        let told = stderr(&output);
        assert!(told.starts_with(warning.unwrap_or_default()), "{output:?}");
        assert_eq!(told.is_empty(), warning.is_none(), "{output:?}");
        let output = inspect(with_controller(controller), &["--csidriver", "--json"]);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(said, expected, "{controller:?}");
    }
}

/// Each is a field of the API, with a value of its type.
#[test]
fn the_comments_of_the_csidriver_object_are_fields_that_can_be_turned_on() {
    let output = inspect(with_controller(Controller::Provisions), &["--csidriver"]);
    let manifest = with_all_fields(&stdout(&output));
    assert_eq!(
        manifest["spec"],
        json!({
            "attachRequired": false,
            "volumeLifecycleModes": ["Persistent", "Ephemeral"],
            "podInfoOnMount": false,
            "requiresRepublish": false,
            "storageCapacity": false,
            "seLinuxMount": false,
            "fsGroupPolicy": "ReadWriteOnceWithFSType",
            "nodeAllocatableUpdatePeriodSeconds": 60,
            "preventPodSchedulingIfMissing": false,
        })
    );
}

#[test]
fn the_controllers_own_socket_gives_the_csidriver_object_too() {
    let behaviour = Behaviour {
        node_get_info: Answer::Fails(Code::Unimplemented),
        ..with_controller(Controller::Publishes)
    };
    let output = inspect(behaviour, &["--csidriver"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(yaml::parse(&stdout(&output)), object(NAME, true));
    assert!(stderr(&output).contains("no Node service"), "{output:?}");
}

#[test]
fn a_name_that_yaml_would_take_for_another_type_stays_a_name() {
    for name in ["1.0", "null", "true", "0x1F", "1e3", "on"] {
        let output = inspect(Behaviour::named(name), &["--csidriver"]);
        assert_eq!(yaml::parse(&stdout(&output)), object(name, false));
    }
}

#[test]
fn a_driver_that_gives_no_usable_name_gives_no_csidriver_object() {
    for name in ["", "a/b", "a\nkind: Secret", "a..b", "a: b", "-a"] {
        for more in [&["--csidriver"][..], &["--csidriver", "--json"]] {
            let output = inspect(Behaviour::named(name), more);
            assert_eq!(output.status.code(), Some(1), "{name}: {output:?}");
            assert!(output.stdout.is_empty(), "{name}: {output:?}");
            let words = "error: no CSIDriver object for this driver: the ";
            assert!(stderr(&output).contains(words), "{name}: {output:?}");
        }
    }
    let behaviour = Behaviour {
        get_plugin_info: Answer::Fails(Code::Internal),
        ..Behaviour::named(NAME)
    };
    let output = inspect(behaviour, &["--csidriver"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.is_empty());
    let words = "without a name: GetPluginInfo failed: Internal";
    assert!(stderr(&output).contains(words), "{output:?}");
}

#[test]
fn hostile_words_of_a_driver_do_not_reach_its_csidriver_object() {
    let evil = "1\nkind: Secret\r\u{85}x: y\u{2028}- z\u{1b}[2J";
    let behaviour = Behaviour {
        vendor_version: evil.to_owned(),
        complaint: evil.to_owned(),
        ..with_controller(Controller::Fails(Code::Internal))
    };
    let output = inspect(behaviour, &["--csidriver"]);
    assert_eq!(yaml::parse(&stdout(&output)), object(NAME, true));
    for said in [stdout(&output), stderr(&output)] {
        assert!(
            !said.contains(['\r', '\u{85}', '\u{2028}', '\u{1b}']),
            "{said:?}"
        );
    }
}

#[test]
fn a_driver_is_found_by_its_id_for_the_csidriver_object() {
    let mut scene = setup().drivers(&["x"]).set();
    let _driver = scene.named("x", NAME);
    let printed = |scene: &Scene| {
        let output = scene.registrar.succeed(&["inspect", "x", "--csidriver"]);
        yaml::parse(&stdout(&output))
    };
    assert_eq!(printed(&scene), object(NAME, false));
    scene.registrar.start();
    scene.phase("x", "waiting-for-kubelet");
    assert_eq!(printed(&scene), object(NAME, false));
    let output = scene
        .registrar
        .run_cli(["inspect", "--csidriver", "/nowhere/csi.sock"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty());
    let words = "the socket /nowhere/csi.sock does not exist";
    assert!(stderr(&output).contains(words), "{output:?}");
}
