//! The control socket between two versions: the daemon answers the requests of a release, and the client understands
//! its answers. Each is also tried with fields that the program does not know.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::{Arc, Mutex};

use bed::exchange::call;
use bed::proto::control::Status;
use bed::scene::{NAME, OTHER, SOON};
use bed::{ByteServer, Scene, stderr, stdout};
use prost::Message;
use serde_json::Value;

use crate::recording::{calls, client};
use crate::release::Release;
use crate::setup;

/// The version that sends a message.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Sender {
    Recorded,
    /// A later version, whose messages have more fields.
    Later,
}

const SENDERS: [Sender; 2] = [Sender::Recorded, Sender::Later];

impl Sender {
    fn sends(self, mut message: Vec<u8>) -> Vec<u8> {
        if self == Sender::Later {
            // Field 1000, a number; field 1001, a text.
            message.extend([0xc0, 0x3e, 7, 0xca, 0x3e, 3, b'n', b'e', b'w']);
        }
        message
    }
}

fn recorded(release: &Release, call: &str, kind: &str) -> Vec<u8> {
    release.read(&format!("control/{call}.{kind}"))
}

/// Sends the request of a release to the daemon of the tree.
#[track_caller]
fn ask(scene: &Scene, release: &Release, sender: Sender, name: &str) -> Vec<u8> {
    let method = name.split_once('-').unwrap().1;
    let request = sender.sends(recorded(release, name, "request"));
    let answer = call(&scene.control(), method, &request);
    answer.unwrap_or_else(|status| panic!("{name}: {status}"))
}

#[test]
fn the_daemon_answers_the_requests_of_a_release() {
    for release in Release::recorded() {
        for sender in SENDERS {
            let (scene, _driver, kubelet) = setup().drivers(&[NAME, OTHER]).registered();
            let _other = scene.node.driver(OTHER);
            scene.phase(OTHER, "registered");
            let ask = |name: &str| ask(&scene, &release, sender, name);
            for name in [
                "status-GetStatus",
                "verify-GetStatus",
                "repair-GetStatus",
                "wait-WatchStatus",
            ] {
                let status = Status::decode(&*ask(name)).unwrap();
                assert_eq!(status.drivers.len(), 2, "{name}: {status:?}");
                let asks_for_volumes = name.starts_with("status");
                assert_eq!(
                    status.drivers[0].volumes.is_some(),
                    asks_for_volumes,
                    "{name}"
                );
            }
            let driver = || {
                scene
                    .registrar
                    .status()
                    .unwrap()
                    .driver(NAME)
                    .unwrap()
                    .clone()
            };
            ask("verify-ReportCluster");
            assert_eq!(driver().in_cluster, Some(true));
            ask("repair-ReportCluster");
            assert_eq!(driver().in_cluster, Some(false));
            ask("repair-Reannounce");
            let again = |times: u64| {
                let is_again = move |driver: &bed::DriverStatus| driver.registrations == times;
                scene
                    .registrar
                    .wait_driver("registered again", NAME, SOON, is_again)
            };
            assert_eq!(again(2).announcements, 2);
            ask("reannounce-Reannounce");
            assert_eq!(again(3).announcements, 3);
            for withdrawal in ["withdraw-Withdraw", "force-Withdraw"] {
                ask(withdrawal);
                scene.phase(OTHER, "withdrawn");
                ask("publish-Publish");
                kubelet.wait_registered(OTHER, SOON);
                scene.phase(OTHER, "registered");
            }
            ask("reload-Reload");
            let method = "Publish";
            let request = recorded(&release, "unknown-Publish", "request");
            let refused = call(&scene.control(), method, &sender.sends(request)).unwrap_err();
            assert_eq!(
                refused.code() as i32,
                refusal(&release, "unknown-Publish").0
            );
        }
    }
}

/// The code and the words of a refusal.
fn refusal(release: &Release, call: &str) -> (i32, String) {
    let text = release.text(&format!("control/{call}.refusal"));
    let (code, words) = text.split_once('\n').unwrap();
    (code.parse().unwrap(), words.to_owned())
}

/// A method, and the bytes of the request.
type Asked = (String, Vec<u8>);

/// A daemon of a release, or of a later version: it has the answers of one command.
struct Daemon {
    runtime_dir: PathBuf,
    requests: Arc<Mutex<Vec<Asked>>>,
    _server: ByteServer,
}

impl Daemon {
    fn start(release: &Release, sender: Sender, command: &str, runtime_dir: &Path) -> Daemon {
        fs::create_dir_all(runtime_dir).unwrap();
        let socket = runtime_dir.join("control.sock");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let directory = release.directory.join("control");
        let command = command.to_owned();
        let _server = ByteServer::start(&socket, move |method, request| {
            let asked = (method.to_owned(), request.to_vec());
            seen.lock().unwrap().push(asked);
            let file = directory.join(format!("{command}-{method}"));
            match fs::read(file.with_extension("answer")) {
                Ok(answer) => Ok(sender.sends(answer)),
                Err(_) => {
                    let text = fs::read_to_string(file.with_extension("refusal")).unwrap();
                    let (code, words) = text.split_once('\n').unwrap();
                    let code = code.parse::<i32>().unwrap().into();
                    Err(tonic::Status::new(code, words))
                }
            }
        });
        Daemon {
            runtime_dir: runtime_dir.to_owned(),
            requests,
            _server,
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        client(&self.runtime_dir, arguments).output().unwrap()
    }
}

/// A command of the tree, and its end against the daemon of a release.
const COMMANDS: [(&str, &[&str], i32); 9] = [
    ("status", &["status", "--json"], 1),
    ("wait", &["wait", NAME], 0),
    ("reannounce", &["reannounce", NAME], 0),
    ("withdraw", &["withdraw", OTHER], 0),
    ("force", &["withdraw", "--force", OTHER], 0),
    ("publish", &["publish", OTHER], 0),
    ("reload", &["reload"], 0),
    ("refused", &["reload"], 78),
    ("unknown", &["publish", "nobody"], 1),
];

#[test]
fn the_client_understands_the_answers_of_a_release_and_asks_as_its_client_does() {
    for release in Release::recorded() {
        for sender in SENDERS {
            for (name, arguments, code) in COMMANDS {
                let directory = tempfile::tempdir().unwrap();
                let daemon = Daemon::start(&release, sender, name, directory.path());
                let output = daemon.run(arguments);
                assert_eq!(output.status.code(), Some(code), "{name}: {output:?}");
                for (method, request) in daemon.requests.lock().unwrap().iter() {
                    let then = recorded(&release, &format!("{name}-{method}"), "request");
                    let (now, then) = (fields(request), fields(&then));
                    assert!(now.is_superset(&then), "{name}: {now:?}, and then {then:?}");
                }
                match name {
                    "status" => is_the_status(&release, &stdout(&output)),
                    "refused" => assert!(stderr(&output).contains("nonsense"), "{output:?}"),
                    "unknown" => {
                        let (_, words) = refusal(&release, "unknown-Publish");
                        assert!(stderr(&output).contains(&words), "{output:?}");
                    }
                    _ => {}
                }
            }
        }
    }
}

/// What the client of the release printed for the same answer, and what this one prints.
fn is_the_status(release: &Release, now: &str) {
    let now: Value = serde_json::from_str(now).unwrap();
    let mut then: Value = serde_json::from_str(&release.text("status.json")).unwrap();
    for driver in then["drivers"].as_array_mut().unwrap() {
        // Its words may change, and it has an age.
        driver.as_object_mut().unwrap().remove("reason");
    }
    assert!(has(&now, &then), "{now:#}, and then {then:#}");
}

/// All of `part` is in `whole`.
fn has(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(name, value)| whole.get(name).is_some_and(|whole| has(whole, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len() && whole.iter().zip(part).all(|(a, b)| has(a, b))
        }
        _ => whole == part,
    }
}

/// The fields of a message: the key of each, which has its number and its type, and its bytes.
fn fields(mut message: &[u8]) -> BTreeSet<(u64, Vec<u8>)> {
    let mut fields = BTreeSet::new();
    while !message.is_empty() {
        let key = number(&mut message);
        let before = message;
        match key & 7 {
            0 => drop(number(&mut message)),
            2 => {
                let length = usize::try_from(number(&mut message)).unwrap();
                message = &message[length..];
            }
            other => panic!("type {other}"),
        }
        fields.insert((key, before[..before.len() - message.len()].to_vec()));
    }
    fields
}

fn number(message: &mut &[u8]) -> u64 {
    prost::encoding::decode_varint(message).unwrap()
}

/// A driver of a later daemon can have a phase, a cause and fields that this client does not know.
#[test]
fn the_client_shows_a_driver_of_a_later_version() {
    let release = Release::recorded().pop().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("control.sock");
    let answer = recorded(&release, "status-GetStatus", "answer");
    let mut status = Status::decode(&*answer).unwrap();
    let driver = &mut status.drivers[0];
    driver.id = "later.csi.test".to_owned();
    driver.phase = "a-later-phase".to_owned();
    driver.cause = 999;
    let driver = Sender::Later.sends(driver.encode_to_vec());
    // Field 4, which is the list of drivers.
    let mut answer = answer;
    answer.push(4 << 3 | 2);
    prost::encoding::encode_varint(driver.len() as u64, &mut answer);
    answer.extend(driver);
    let _server = ByteServer::start(&socket, move |_, _| Ok(answer.clone()));
    for arguments in [
        &["status"][..],
        &["status", "--json"],
        &["status", "later.csi.test"],
    ] {
        let output = client(directory.path(), arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(stdout(&output).contains("a-later-phase"), "{output:?}");
    }
}

#[test]
fn every_recorded_call_is_tried() {
    let methods = [
        "wait-WatchStatus",
        "status-GetStatus",
        "verify-GetStatus",
        "repair-GetStatus",
        "verify-ReportCluster",
        "repair-ReportCluster",
        "repair-Reannounce",
        "reannounce-Reannounce",
        "withdraw-Withdraw",
        "force-Withdraw",
        "publish-Publish",
        "unknown-Publish",
        "reload-Reload",
        "refused-Reload",
    ];
    for release in Release::recorded() {
        let recorded = calls(&release.directory);
        let names = recorded.iter().map(|file| file.split_once('.').unwrap().0);
        assert_eq!(names.collect::<BTreeSet<_>>(), methods.into());
    }
}
