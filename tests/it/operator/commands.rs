//! The command line: its output and its exit codes.

use std::collections::BTreeSet;
use std::process::Command;
use std::thread;
use std::time::Duration;

use bed::scene::{NAME, SOON, in_both_layouts};
use bed::{Node, Process, Registrar, stderr, stdout};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{PROGRAM, setup};

fn keys(value: &Value) -> BTreeSet<&str> {
    let object = value.as_object().unwrap();
    object.keys().map(String::as_str).collect()
}

#[test]
fn status_json_has_every_key_and_null_for_what_is_not_known() {
    let mut scene = setup().set();
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    let output = scene.registrar.run_cli(["status", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        keys(&status),
        ["drivers", "kubelet", "notes", "ready", "version"].into()
    );
    assert_eq!(status["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(keys(&status["kubelet"]), ["pid", "plugins_registry"].into());
    assert_eq!(status["kubelet"]["pid"], Value::Null);
    let plugins_registry = scene.node.plugins_registry().display().to_string();
    assert_eq!(status["kubelet"]["plugins_registry"], plugins_registry);
    let driver = &status["drivers"][0];
    let all = "id name phase reason since csi_socket endpoint registration_socket link node_id \
               vendor_version answering volumes in_cluster cluster_checked registrations rejections \
               announcements link_repairs last_error";
    assert_eq!(keys(driver), all.split_whitespace().collect());
    for unknown in [
        "name",
        "registration_socket",
        "link",
        "node_id",
        "vendor_version",
        "in_cluster",
        "cluster_checked",
        "last_error",
    ] {
        assert_eq!(driver[unknown], Value::Null, "{unknown}");
    }
    let since: jiff::Timestamp = driver["since"].as_str().unwrap().parse().unwrap();
    assert!(since <= jiff::Timestamp::now());
    assert_eq!(driver["csi_socket"], driver["endpoint"]);
    assert_eq!(driver["registrations"], 0);
    assert_eq!(driver["answering"], false);
    assert_eq!(status["notes"], Value::Array(Vec::new()));
}

#[test]
fn status_knows_everything_of_a_registered_driver() {
    in_both_layouts(|layout| {
        let (scene, driver, _kubelet) = setup().layout(layout).registered();
        let output = scene.registrar.succeed(&["status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(status["ready"], true);
        assert_eq!(status["kubelet"]["pid"], std::process::id());
        let shown = &status["drivers"][0];
        let text = |path: std::path::PathBuf| Value::from(path.display().to_string());
        assert_eq!(shown["id"], NAME);
        assert_eq!(shown["name"], NAME);
        assert_eq!(shown["phase"], "registered");
        assert_eq!(shown["csi_socket"], text(driver.path().to_owned()));
        assert_eq!(
            shown["registration_socket"],
            text(scene.node.reg_socket(NAME))
        );
        assert_eq!(shown["link"], text(scene.node.link(NAME)));
        assert_eq!(shown["node_id"], "node-1");
        assert_eq!(shown["vendor_version"], "1.2.3");
        assert_eq!(shown["answering"], true);
        let counts = [
            "registrations",
            "rejections",
            "announcements",
            "link_repairs",
        ];
        assert_eq!(
            counts.map(|count| shown[count].as_u64().unwrap()),
            [1, 0, 1, 0]
        );
        let table = stdout(&scene.registrar.succeed(&["status"]));
        assert!(
            table.contains(NAME) && table.contains("registered"),
            "{table}"
        );
    });
}

#[test]
fn without_a_daemon_status_fails_with_an_empty_stdout() {
    let scene = setup().set();
    for arguments in [
        &["status", "--json"][..],
        &["status"],
        &["reload"],
        &["wait", "--timeout", "100ms"],
    ] {
        let output = scene.registrar.run_cli(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        assert!(stderr(&output).contains("not running"), "{output:?}");
    }
}

#[test]
fn check_says_what_would_be_done_and_does_nothing() {
    in_both_layouts(|layout| {
        let scene = setup()
            .layout(layout)
            .more(format!("[drivers.x]\nname = {NAME:?}\n"))
            .set();
        let before = scene.files();
        let said = stdout(&scene.registrar.succeed(&["check"]));
        assert!(said.starts_with("the configuration is valid"), "{said}");
        for path in [
            scene.node.csi_socket(NAME),
            scene.node.csi_socket("x"),
            scene.node.reg_socket(NAME),
            scene.node.link(NAME),
        ] {
            assert!(said.contains(&path.display().to_string()), "{said}");
        }
        assert_eq!(scene.files(), before);
    });
}

#[test]
fn a_bad_configuration_is_78_with_file_key_and_value() {
    let scene = setup().set();
    let file = scene.node.config_file().display().to_string();
    for (config, words) in [
        (
            "[defaults]\nretry_max = \"soon\"\n",
            ["defaults.retry_max", "soon"],
        ),
        ("[defaults]\nno_such_key = 7\n", ["no_such_key", "defaults"]),
        ("plugins_dir = \"here\"\n", ["plugins_dir", "here"]),
        (
            "[drivers.a]\ncsi_socket = \"/s\"\n[drivers.b]\ncsi_socket = \"/s\"\n",
            ["csi_socket", "/s"],
        ),
    ] {
        scene.node.write_config(config);
        for command in ["check", "config", "run"] {
            let output = scene.registrar.run_cli([command]);
            assert_eq!(output.status.code(), Some(78), "{command}: {output:?}");
            let said = stderr(&output);
            for word in words.into_iter().chain([&*file]) {
                assert!(said.contains(word), "{word} not in {said}");
            }
        }
    }
}

#[test]
fn a_configuration_that_was_named_must_be_there() {
    let node = Node::new();
    let registrar = Registrar::new(PROGRAM, &node);
    for command in ["check", "run"] {
        let output = registrar.run_cli([command]);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        let file = node.config_file().display().to_string();
        assert!(stderr(&output).contains(&file), "{output:?}");
    }
}

#[test]
fn config_shows_each_value_with_where_it_came_from() {
    let scene = setup().set();
    let scene = scene.with_env("NSDR_DEFAULTS__RETRY_MAX", "7s");
    let said = stdout(&scene.registrar.succeed(&["config", "--log-level", "debug"]));
    let line = |key: &str| {
        said.lines()
            .find(|line| line.starts_with(key))
            .map(str::to_owned)
    };
    let shows = |key: &str, words: [&str; 2]| {
        let line = line(key).unwrap_or_else(|| panic!("no {key} in {said}"));
        assert!(words.iter().all(|word| line.contains(word)), "{line}");
    };
    let file = scene.node.config_file().display().to_string();
    shows(
        "plugins_dir",
        [&scene.node.plugins_dir().display().to_string(), &file],
    );
    shows("defaults.retry_max", ["7s", "NSDR_DEFAULTS__RETRY_MAX"]);
    shows("log.level", ["debug", "--log-level"]);
    shows("defaults.request_timeout", ["5s", "default"]);
}

#[test]
fn help_and_version_are_0_and_what_is_not_understood_is_64() {
    let scene = setup().set();
    let version = stdout(&scene.registrar.succeed(&["--version"]));
    let expected = concat!(
        "node-storage-driver-registrar ",
        env!("CARGO_PKG_VERSION"),
        "\n"
    );
    assert_eq!(version, expected);
    assert_eq!(stdout(&scene.registrar.succeed(&["-V"])), expected);
    let help = stdout(&scene.registrar.succeed(&["--help"]));
    for command in [
        "run",
        "reload",
        "check",
        "config",
        "status",
        "wait",
        "reannounce",
    ] {
        assert!(help.contains(command), "{help}");
    }
    for wrong in [
        &["nonsense"][..],
        &["status", "--nonsense"],
        &["withdraw"],
        &["wait", "--for", "x"],
    ] {
        let output = scene.registrar.run_cli(wrong);
        assert_eq!(output.status.code(), Some(64), "{wrong:?}: {output:?}");
        assert!(
            output.stdout.is_empty() && !output.stderr.is_empty(),
            "{output:?}"
        );
    }
}

#[test]
fn a_second_instance_ends_and_names_the_pid_of_the_first() {
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let output = scene.registrar.run_cli(["run"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    let words = format!(
        "pid {} holds {}",
        scene.registrar.pid(),
        scene.node.runtime_dir().display()
    );
    assert!(said.contains(&words), "{said}");
    assert!(scene.registrar.is_running());
    scene.phase(NAME, "waiting-for-driver");
}

#[test]
fn wait_ends_when_it_is_reached_and_fails_when_it_is_late() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let late = scene.registrar.run_cli(["wait", "--timeout", "200ms"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(
        stderr(&late).contains("timed out after 200ms: local.csi.paas.cucloud: waiting"),
        "{late:?}"
    );
    let wait = |state, driver| {
        scene
            .registrar
            .succeed(&["wait", "--for", state, "--timeout", "20s", driver])
    };
    thread::scope(|scope| {
        let serving = scope.spawn(|| wait("serving", NAME));
        let registered = scope.spawn(|| wait("registered", NAME));
        let _driver = scene.node.driver(NAME);
        serving.join().unwrap();
        assert!(!registered.is_finished());
        let _kubelet = scene.node.kubelet();
        registered.join().unwrap();
        scene.registrar.succeed(&["wait"]);
    });
}

#[test]
fn wait_for_all_wants_at_least_one() {
    let scene = setup().drivers(&[]).started();
    bed::eventually("the daemon answers", SOON, || scene.registrar.status());
    let late = scene.registrar.run_cli(["wait", "--timeout", "200ms"]);
    assert_eq!(late.status.code(), Some(1));
}

#[test]
fn wait_outlives_a_restart_of_the_daemon() {
    let mut scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut wait = scene.registrar.command("wait");
    let mut waiting = Process::start(wait.args(["--for", "serving", "--timeout", "20s"]));
    thread::sleep(Duration::from_millis(200));
    scene.registrar.restart();
    let _driver = scene.node.driver(NAME);
    let _kubelet = scene.node.kubelet();
    assert!(waiting.wait(SOON).success());
}

#[test]
fn a_hanging_daemon_and_a_missing_daemon_have_different_errors() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    scene.registrar.signal(Signal::SIGSTOP);
    for command in ["status", "reload"] {
        let output = scene.registrar.run_cli([command]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stderr(&output).contains("does not answer"), "{output:?}");
    }
    scene.registrar.signal(Signal::SIGCONT);
    scene.registrar.succeed(&["reload"]);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let scene = setup().started();
    for command in ["check", "config"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let program = bed::registrar::chosen(PROGRAM);
        let output = Command::new(program)
            .args([command, "--config"])
            .arg(scene.node.config_file())
            .stdout(writer)
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
    }
}
