//! Text of a driver or a kubelet, in every place that shows it: on one line, of bounded length, and
//! without a character that a terminal, a browser, Prometheus or systemd would interpret.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use bed::driver::Answer;
use bed::scene::{NAME, SOON};
use bed::wire::notify;
use bed::{Behaviour, NotifySocket, RawListener, Scene, eventually};
use tonic::Code;

use crate::setup;

/// A terminal, a line, an attribute, a label and the direction of writing.
const WORDS: &str =
    "\u{1b}[2J\u{1b}]0;x\u{7}\r\nREADY=1\n<script>'\"}\\ 1\n\u{202e}\u{200f}\u{2028}\u{9b}31m";
/// The registrar's own words around a driver's 512 characters, each escaped.
const LONGEST_LINE: usize = 16 * 1024;

fn garbles(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Every output by name, with its present text.
fn shown(scene: &Scene, systemd: &NotifySocket) -> Vec<(String, String)> {
    let socket = scene.node.csi_socket(NAME).display().to_string();
    let commands: [&[&str]; 6] = [
        &["status"],
        &["status", "--json"],
        &["inspect", &socket],
        &["inspect", "--json", &socket],
        &["doctor"],
        &["doctor", "--json"],
    ];
    let mut shown: Vec<(String, String)> = Vec::new();
    for command in commands {
        let output = scene.registrar.run_cli(command);
        for said in [output.stdout, output.stderr] {
            shown.push((command.join(" "), String::from_utf8(said).unwrap()));
        }
    }
    for path in ["/", "/status", "/metrics", "/readyz", "/healthz"] {
        shown.push((path.to_owned(), get(scene, path)));
    }
    shown.push(("the log".to_owned(), scene.registrar.logs()));
    shown.push(("STATUS=".to_owned(), systemd.status().unwrap_or_default()));
    shown
}

fn get(scene: &Scene, path: &str) -> String {
    let mut stream = eventually("http is served", SOON, || UnixStream::connect(scene.http()));
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    body.to_owned()
}

#[track_caller]
fn all_is_harmless(scene: &Scene, systemd: &NotifySocket) {
    for (place, text) in shown(scene, systemd) {
        for line in text.lines() {
            assert!(!line.contains(garbles), "{place}: {line:?}");
            // JSON has the driver's whole text: 64 KiB at most, each byte escaped.
            let longest = if place.contains("--json") {
                400_000
            } else {
                LONGEST_LINE
            };
            assert!(line.len() < longest, "{place}: {} bytes", line.len());
            assert_ne!(line, "READY=1", "{place}");
        }
        if place == "/" {
            assert!(!text.contains("<script"), "{text}");
        }
    }
    // Whatever the text, only the daemon's own READY reaches systemd.
    assert_eq!(systemd.count("READY=1"), 1);
    let known = ["READY", "STATUS", "EXTEND_TIMEOUT_USEC", "WATCHDOG"];
    for message in systemd.messages() {
        let stranger = message
            .fields
            .keys()
            .find(|key| !known.contains(&key.as_str()));
        assert_eq!(stranger, None, "{message:?}");
    }
}

fn started() -> (Scene, NotifySocket) {
    let quick = "[defaults]\nretry_max = \"50ms\"\n";
    let mut scene = setup().http().more(quick).set();
    let systemd = NotifySocket::bind(scene.node.root().join("notify"));
    scene.registrar = scene.registrar.with_env("NOTIFY_SOCKET", systemd.path());
    scene.registrar.start();
    systemd.wait_for("READY=1", SOON);
    (scene, systemd)
}

#[test]
fn what_a_healthy_driver_says_of_itself_is_harmless() {
    let (scene, systemd) = started();
    let behaviour = Behaviour {
        vendor_version: WORDS.to_owned(),
        node_id: WORDS.to_owned(),
        ..Behaviour::named(NAME)
    };
    let mut driver = scene
        .node
        .behaving(NAME, behaviour.clone().with_topology(WORDS, WORDS));
    let status = scene.phase(NAME, "waiting-for-kubelet");
    assert_eq!(
        status.node_id.as_deref(),
        Some(WORDS),
        "programs get it as it is"
    );
    all_is_harmless(&scene, &systemd);

    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    // Another value is a collision, and the reason has both values.
    driver.restart(behaviour.with_topology(WORDS, "\u{1b}[0m"));
    eventually("the collision is told", SOON, || {
        let status = scene.registrar.status()?;
        let reason = status.driver(NAME)?.reason.clone()?;
        reason.contains("topology").then_some(())
    });
    all_is_harmless(&scene, &systemd);
}

#[test]
fn the_error_of_a_driver_is_harmless_however_long() {
    let (scene, systemd) = started();
    for words in [WORDS.to_owned(), WORDS.repeat(100), "x".repeat(1 << 20)] {
        let behaviour = Behaviour {
            get_plugin_info: Answer::Fails(Code::Internal),
            complaint: words,
            ..Behaviour::named(NAME)
        };
        let _driver = scene.node.behaving(NAME, behaviour);
        eventually("the error is told", SOON, || {
            let status = scene.registrar.status()?;
            let reason = status.driver(NAME)?.reason.clone()?;
            reason.contains("GetPluginInfo failed").then_some(())
        });
        all_is_harmless(&scene, &systemd);
    }
}

#[test]
fn a_hostile_name_is_harmless() {
    let (scene, systemd) = started();
    for name in [WORDS.to_owned(), WORDS.repeat(500)] {
        let _driver = scene.node.behaving(NAME, Behaviour::named(name));
        eventually("the name is refused", SOON, || {
            let status = scene.registrar.status()?;
            let reason = status.driver(NAME)?.reason.clone()?;
            reason.contains("the name \"").then_some(())
        });
        all_is_harmless(&scene, &systemd);
    }
}

#[test]
fn the_debug_data_of_a_goaway_is_harmless() {
    // GOAWAY with 16,000 bytes of debug data.
    static GOAWAY: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
        let mut words = WORDS.repeat(400).into_bytes();
        words.truncate(16_000);
        let length = u32::try_from(8 + words.len()).unwrap().to_be_bytes();
        let mut frames = b"\0\0\0\x04\0\0\0\0\0".to_vec();
        frames.extend(&length[1..]);
        frames.extend(b"\x07\0\0\0\0\0\0\0\0\0\0\0\0\x02");
        frames.extend(words);
        frames
    });
    let (scene, systemd) = started();
    let _stranger = RawListener::saying(&scene.node.csi_socket(NAME), &GOAWAY);
    eventually("the end of it is told", SOON, || {
        let status = scene.registrar.status()?;
        let reason = status.driver(NAME)?.reason.clone()?;
        reason.contains("broke").then_some(())
    });
    all_is_harmless(&scene, &systemd);
}

#[test]
fn what_a_kubelet_refuses_with_is_harmless() {
    let (scene, systemd) = started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    for words in [WORDS.to_owned(), WORDS.repeat(500)] {
        notify(&scene.node.link(NAME), Some(&words)).unwrap();
        scene.phase(NAME, "rejected");
        all_is_harmless(&scene, &systemd);
    }
}

#[test]
fn a_log_of_json_has_one_object_on_each_line() {
    let scene = setup().http().more("[log]\ntarget = \"json\"\n").started();
    let behaviour = Behaviour {
        get_plugin_info: Answer::Fails(Code::Internal),
        complaint: WORDS.to_owned(),
        ..Behaviour::named(NAME)
    };
    let _driver = scene.node.behaving(NAME, behaviour);
    let logs = eventually("the error is logged", SOON, || {
        let logs = scene.registrar.logs();
        logs.contains("GetPluginInfo failed").then_some(logs)
    });
    for line in logs.lines() {
        assert!(!line.contains(garbles), "{line:?}");
        let parsed: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(parsed.is_object(), "{line}");
    }
}
