//! Every fault of a driver in one table, with the words of status, doctor and inspect.

use bed::driver::{Answer, Call, Listening};
use bed::scene::{NAME, OTHER, SOON, is_nothing};
use bed::{Behaviour, Layout, stderr, stdout};
use tonic::Code;

use super::doctor::{doctor, findings, finds};
use crate::setup;

/// Every call has one second, and the registrar asks again so soon that a test sees it.
const QUICK: &str =
    "[defaults]\nretry_max = \"50ms\"\nrequest_timeout = \"1s\"\nnode_info_timeout = \"1s\"\n";

/// A fault, and the words that name it.
struct Fault {
    /// How the driver behaves.
    driver: Behaviour,
    /// In the reason of `status`, with the phase waiting-for-driver.
    reason: &'static str,
    doctor: Finding,
    /// On stdout of `inspect` after `fault: `, or on stderr where the driver answers nothing at all.
    inspect: &'static str,
}

/// The doctor's finding.
enum Finding {
    /// The first finding, with its check and its words.
    Fault(&'static str, &'static str),
    /// Among others, with its check.
    Warning(&'static str),
}

fn healthy() -> Behaviour {
    Behaviour::named(NAME)
}

fn listening(listening: Listening) -> Behaviour {
    Behaviour {
        listening,
        ..healthy()
    }
}

fn failing_node_get_info(code: Code) -> Behaviour {
    Behaviour {
        node_get_info: Answer::Fails(code),
        ..healthy()
    }
}

fn faults() -> Vec<Fault> {
    use Finding::{Fault as Found, Warning};
    let row = |driver, reason, doctor, inspect| Fault {
        driver,
        reason,
        doctor,
        inspect,
    };
    vec![
        row(
            listening(Listening::Refuses),
            "no process listens on",
            Found("csi.sock listening", "no process listens on"),
            "no process listens on",
        ),
        row(
            listening(Listening::Mute),
            "does not answer",
            Found("csi.sock answering", "does not answer"),
            "took longer than 1s",
        ),
        row(
            Behaviour {
                get_plugin_info: Answer::Fails(Code::Internal),
                ..healthy()
            },
            "GetPluginInfo failed: Internal",
            Found("GetPluginInfo", "GetPluginInfo failed: Internal"),
            "GetPluginInfo failed: Internal",
        ),
        row(
            healthy().hanging_on(Call::GetPluginInfo),
            "GetPluginInfo took longer than 1s",
            Found("csi.sock answering", "GetPluginInfo took longer than 1s"),
            "GetPluginInfo took longer than 1s",
        ),
        row(
            Behaviour {
                vendor_version: "v".repeat(300_000),
                ..healthy()
            },
            "GetPluginInfo failed: OutOfRange",
            Found("GetPluginInfo", "GetPluginInfo failed: OutOfRange"),
            "GetPluginInfo failed: OutOfRange",
        ),
        row(
            Behaviour::named(""),
            "the name is empty",
            Found("name", "the name is empty"),
            "GetPluginInfo: the name is empty",
        ),
        row(
            Behaviour::named("../../etc/x"),
            "the name \"../../etc/x\" may hold only letters",
            Found("name", "may hold only letters"),
            "GetPluginInfo: the name \"../../etc/x\"",
        ),
        row(
            Behaviour::named("a/b\n\u{1b}[2J"),
            "the name \"a/b\\n\\u{1b}[2J\"",
            Found("name", "the name \"a/b\\n\\u{1b}[2J\""),
            "GetPluginInfo: the name \"a/b\\n\\u{1b}[2J\"",
        ),
        row(
            Behaviour::named("x".repeat(64)),
            "has 64 characters, more than 63",
            Found("name", "has 64 characters, more than 63"),
            "has 64 characters, more than 63",
        ),
        // 63 characters are allowed, but make the path of a socket too long below a node's directories.
        row(
            Behaviour::named("x".repeat(63)),
            "is too long: ",
            Found("path length", "is too long"),
            "is too long",
        ),
        row(
            failing_node_get_info(Code::Unavailable),
            "NodeGetInfo failed: Unavailable",
            Found("NodeGetInfo", "NodeGetInfo failed: Unavailable"),
            "NodeGetInfo failed: Unavailable",
        ),
        row(
            failing_node_get_info(Code::Unimplemented),
            "has no Node service",
            Warning("NodeGetInfo"),
            "the driver has no Node service",
        ),
        row(
            healthy().hanging_on(Call::NodeGetInfo),
            "NodeGetInfo took longer than 1s",
            Found("NodeGetInfo", "NodeGetInfo took longer than 1s"),
            "NodeGetInfo took longer than 1s",
        ),
        row(
            Behaviour {
                node_id: String::new(),
                ..healthy()
            },
            "NodeGetInfo: the node id is empty",
            Found("NodeGetInfo", "the node id is empty"),
            "NodeGetInfo: the node id is empty",
        ),
    ]
}

/// Another driver is registered meanwhile, and no file appears on disk but the ones which that driver
/// needs. The registrar keeps asking the driver that is at fault.
#[test]
fn the_status_names_each_fault_and_nothing_reaches_the_disk() {
    for layout in Layout::ALL {
        for fault in faults() {
            let reason = fault.reason;
            eprintln!("{layout:?}: {reason}");
            let scene = setup()
                .layout(layout)
                .drivers(&[NAME, OTHER])
                .more(QUICK)
                .started();
            let name = fault.driver.name.clone();
            let mut driver = scene.node.behaving(NAME, fault.driver);
            let kubelet = scene.node.kubelet();
            let mut allowed = scene.files();
            let status = scene.reason(NAME, "waiting-for-driver", reason);
            assert!(!status.reason.unwrap().contains('\u{1b}'));
            let healthy = scene.node.driver(OTHER);
            kubelet.wait_registered(OTHER, SOON);
            scene.phase(OTHER, "registered");
            scene.reason(NAME, "waiting-for-driver", reason);
            assert!(is_nothing(&scene.node.link(&name)));
            allowed.extend([
                healthy.path().to_owned(),
                healthy.path().parent().unwrap().to_owned(),
                scene.node.registry_dir(),
                scene.node.reg_socket(OTHER),
                scene.node.link(OTHER),
            ]);
            let strange: Vec<_> = scene.files().difference(&allowed).cloned().collect();
            assert!(strange.is_empty(), "{strange:?}");
            driver.restart(Behaviour::named(NAME));
            scene.wait_published(NAME);
        }
    }
}

#[test]
fn the_doctor_names_each_fault_with_and_without_the_daemon() {
    for fault in faults() {
        eprintln!("{}", fault.reason);
        let mut scene = setup().more(QUICK).set();
        let _driver = scene.node.behaving(NAME, fault.driver);
        for daemon in [false, true] {
            if daemon {
                scene.registrar.start();
                scene.reason(NAME, "waiting-for-driver", fault.reason);
            }
            match fault.doctor {
                Finding::Fault(check, words) => finds(&scene, check, words),
                Finding::Warning(check) if daemon => {
                    let output = doctor(&scene);
                    assert_eq!(output.status.code(), Some(0), "{output:?}");
                    let findings = findings(&output);
                    let found = findings.iter().find(|finding| finding["check"] == check);
                    assert_eq!(found.unwrap()["level"], "warning");
                }
                // Without the daemon, its absence is the first finding.
                Finding::Warning(_) => finds(&scene, "daemon", "is not running"),
            }
        }
    }
}

#[test]
fn inspect_names_each_fault() {
    for fault in faults() {
        let words = fault.inspect;
        let scene = setup().drivers(&[]).more(QUICK).set();
        // Without an answer to the first call there is no report.
        let answers = fault.driver.listening == Listening::Speaks
            && !fault.driver.hangs.contains(&Call::GetPluginInfo);
        let driver = scene.node.behaving("x", fault.driver);
        let socket = driver.path().display().to_string();
        let output = scene.registrar.run_cli(["inspect", &socket]);
        assert_eq!(output.status.code(), Some(1), "{words}: {output:?}");
        let said = stdout(&output);
        assert_eq!(said.is_empty(), !answers, "{words}: {output:?}");
        if !answers {
            assert!(stderr(&output).contains(words), "{words}: {output:?}");
        } else {
            let fault = said.lines().find(|line| line.starts_with("fault: "));
            assert!(
                fault.is_some_and(|line| line.contains(words)),
                "{words}: {said}"
            );
            assert!(said.contains("cannot be registered"), "{words}: {said}");
        }
        assert!(!said.contains('\u{1b}'), "{words}: {said}");
    }
}
