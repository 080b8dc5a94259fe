//! Environment variables: those of other programs, unknown ones, and bad values.

use bed::scene::NAME;
use bed::stderr;

use crate::setup;

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
fn an_unknown_variable_is_a_warning_in_the_log_and_of_a_command() {
    let name = "NSDR_LOG_LEVEL";
    let mut scene = setup().set().with_env(name, "debug");
    let words = format!(
        "environment variable {name} is ignored: it sets no key, did you mean NSDR_LOG__LEVEL?"
    );
    for command in ["check", "config"] {
        let output = scene.registrar.succeed(&[command]);
        let said = stderr(&output);
        assert!(
            said.contains(&format!("warning: {words}\n")),
            "{command}: {said}"
        );
    }
    scene.registrar.start();
    scene.wait_up();
    let logs = scene.registrar.logs();
    let warned: Vec<&str> = logs.lines().filter(|line| line.contains(&words)).collect();
    assert!(
        matches!(&warned[..], [line] if line.contains("WARN")),
        "{logs}"
    );
    // A reload reads the same environment again, which is no news.
    scene.registrar.succeed(&["reload"]);
    assert_eq!(scene.registrar.logs().matches(&words).count(), 1);
}

#[test]
fn a_bad_value_of_a_known_variable_is_78() {
    let scene = setup().set().with_env("NSDR_KUBELET__ROOT_DIR", "here");
    for command in ["check", "config", "run"] {
        let output = scene.registrar.run_cli([command]);
        assert_eq!(output.status.code(), Some(78), "{command}: {output:?}");
        let said = stderr(&output);
        assert!(
            said.contains("NSDR_KUBELET__ROOT_DIR: kubelet.root_dir = \"here\": "),
            "{said}"
        );
    }
}
