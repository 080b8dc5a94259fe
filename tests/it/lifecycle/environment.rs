//! Environment variables of other programs, and variables that only the unit has.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use bed::scene::NAME;
use bed::{Container, Node, stderr, stdout};

use crate::{PROGRAM, setup};

/// The environment of a pod whose namespace has the services `nsdr` and `nsdr-http`.
const SERVICES: &[(&str, &str)] = &[
    ("NSDR_SERVICE_HOST", "10.96.14.2"),
    ("NSDR_SERVICE_PORT", "9809"),
    ("NSDR_SERVICE_PORT_HTTP_METRICS", "9809"),
    ("NSDR_PORT", "tcp://10.96.14.2:9809"),
    ("NSDR_PORT_9809_TCP", "tcp://10.96.14.2:9809"),
    ("NSDR_PORT_9809_TCP_PROTO", "tcp"),
    ("NSDR_PORT_9809_TCP_PORT", "9809"),
    ("NSDR_PORT_9809_TCP_ADDR", "10.96.14.2"),
    ("NSDR_HTTP_SERVICE_HOST", "fd00::17"),
    ("NSDR_HTTP_PORT", "udp://[fd00::17]:53"),
    ("NSDR_HTTP_PORT_53_UDP_ADDR", "fd00::17"),
];

#[test]
fn a_kubernetes_service_called_nsdr_does_not_prevent_the_start() {
    let scene = setup().set();
    let mut scene = SERVICES
        .iter()
        .fold(scene, |scene, (name, value)| scene.with_env(name, value));
    scene.registrar.succeed(&["check"]);
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    scene.wait_published(NAME);
}

#[test]
fn a_variable_that_only_looks_a_little_like_a_services_is_an_error() {
    for (name, value) in [
        ("NSDR_SERVICE_HOSTS", "10.96.14.2"),
        ("NSDR_HTTP_PORT", "9809"),
        ("NSDR_SERVICE__HOST", "10.96.14.2"),
    ] {
        let scene = setup().set().with_env(name, value);
        let output = scene.registrar.run_cli(["check"]);
        assert_eq!(output.status.code(), Some(78), "{name}: {output:?}");
        assert!(stderr(&output).contains(name), "{output:?}");
    }
}

/// A machine with this environment file for the unit, as a shell on it sees it.
struct Machine {
    node: Node,
    view: Container,
    program: PathBuf,
}

impl Machine {
    /// None where the test cannot create a mount namespace.
    fn with(environment: &str) -> Option<Machine> {
        // Without the directory, the mount below would create it on the real machine.
        if !Container::can_be_had() || !Path::new("/etc/default").is_dir() {
            return None;
        }
        let node = Node::new();
        let defaults = node.root().join("default");
        fs::create_dir(&defaults).unwrap();
        fs::write(defaults.join("node-storage-driver-registrar"), environment).unwrap();
        let program = bed::registrar::chosen(PROGRAM);
        let view = Container::new(node.root().join("machine"))
            .mounted(program.parent().unwrap(), "/image")
            .mounted(node.root(), node.root())
            .mounted(&defaults, "/etc/default");
        Some(Machine {
            program: Path::new("/image").join(program.file_name().unwrap()),
            view,
            node,
        })
    }

    /// Runs a command there, with one variable exported or none.
    fn shell(&self, arguments: &[&str], exported: Option<(&str, &str)>) -> Output {
        let mut command = self.view.command(&self.program);
        bed::registrar::clear_environment(&mut command)
            .envs(exported)
            .args(arguments)
            .arg("--runtime-dir")
            .arg(self.node.runtime_dir())
            .output()
            .unwrap()
    }
}

/// The line of a key in the output of `config`.
fn line(output: &Output, key: &str) -> String {
    assert!(output.status.success(), "{output:?}");
    let said = stdout(output);
    let found = said.lines().find(|line| line.starts_with(key)).unwrap();
    found.to_owned()
}

#[test]
fn a_shell_judges_the_configuration_with_the_variables_of_the_unit() {
    let Some(machine) = Machine::with("# for the unit\nNSDR_LOG__LEVEL='debug'\nOTHER=1\n") else {
        return;
    };
    let said = line(&machine.shell(&["config"], None), "log.level");
    assert!(said.starts_with("log.level = \"debug\""), "{said}");
    let from = "from /etc/default/node-storage-driver-registrar (NSDR_LOG__LEVEL)";
    assert!(said.ends_with(from), "{said}");
    // An exported variable takes precedence, and so does a flag.
    let exported = Some(("NSDR_LOG__LEVEL", "warn"));
    let said = line(&machine.shell(&["config"], exported), "log.level");
    assert!(said.starts_with("log.level = \"warn\""), "{said}");
    let said = machine.shell(&["config", "--log-level", "error"], None);
    let said = line(&said, "log.level");
    assert!(said.starts_with("log.level = \"error\""), "{said}");
    // Another configuration belongs to another unit.
    machine.node.write_default_config(&[NAME], "");
    let named = machine.node.config_file();
    let named = machine.shell(&["config", "--config", named.to_str().unwrap()], None);
    let said = line(&named, "log.level");
    assert!(said.ends_with("built-in default"), "{said}");
}

#[test]
fn a_fault_in_the_variables_of_the_unit_is_found_from_a_shell() {
    let Some(machine) = Machine::with("NSDR_KUBELET__ROOT_DIR=here\n") else {
        return;
    };
    let fault = "/etc/default/node-storage-driver-registrar (NSDR_KUBELET__ROOT_DIR): \
                 kubelet.root_dir = \"here\": ";
    for command in ["check", "config"] {
        let output = machine.shell(&[command], None);
        assert_eq!(output.status.code(), Some(78), "{command}: {output:?}");
        assert!(stderr(&output).contains(fault), "{output:?}");
    }
    let output = machine.shell(&["doctor", "--json"], None);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = report["findings"][0].to_string();
    assert!(first.contains(&fault.replace('"', "\\\"")), "{first}");
}

#[test]
fn the_daemon_takes_its_environment_as_it_is() {
    let Some(machine) = Machine::with("NSDR_KUBELET__ROOT_DIR=here\n") else {
        return;
    };
    // For the daemon, systemd has read the file. The daemon fails here because of its own environment.
    let exported = Some(("NSDR_LOG__LEVEL", "loud"));
    let output = machine.shell(&["run"], exported);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("NSDR_LOG__LEVEL"), "{said}");
    assert!(!said.contains("/etc/default"), "{said}");
}
