//! The record of a release: the files that its daemon and its client write, and the calls between them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use bed::ByteServer;
use bed::exchange::call;
use bed::registrar::{chosen, clear_environment};
use bed::scene::{NAME, OTHER};
use serde_json::Value;

use crate::PROGRAM;
use crate::configuration;
use crate::list::keeps;
use crate::node::Node;
use crate::release::{Release, VERSION, is_released, root};
use crate::saved_state::MAPS;
use crate::shape::Shape;

/// Set to write the record of the version of Cargo.toml.
const ASKED: &str = "RECORD_RELEASE";

/// Stands between a client and the daemon, and writes each call to a directory: the request, and the answer or the
/// refusal.
struct Recorder {
    runtime_dir: PathBuf,
    /// The name of the present call's files, without the method.
    name: Arc<Mutex<String>>,
    _server: ByteServer,
}

impl Recorder {
    /// Clients find it in `runtime_dir`.
    fn start(daemon: PathBuf, runtime_dir: &Path, directory: &Path) -> Recorder {
        let directory = directory.join("control");
        fs::create_dir_all(&directory).unwrap();
        fs::create_dir_all(runtime_dir).unwrap();
        let name = Arc::new(Mutex::new(String::new()));
        let current = Arc::clone(&name);
        let record = move |method: &str, request: &[u8]| {
            let file = directory.join(format!("{}-{method}", current.lock().unwrap()));
            let answer = call(&daemon, method, request);
            fs::write(file.with_extension("request"), request).unwrap();
            match &answer {
                Ok(answer) => fs::write(file.with_extension("answer"), answer).unwrap(),
                Err(status) => {
                    let refusal = format!("{}\n{}", status.code() as i32, status.message());
                    fs::write(file.with_extension("refusal"), refusal).unwrap();
                }
            }
            answer
        };
        Recorder {
            runtime_dir: runtime_dir.to_owned(),
            name,
            _server: ByteServer::start(&runtime_dir.join("control.sock"), record),
        }
    }

    fn command(&self, name: &str, config: &Path, arguments: &[&str]) -> Command {
        *self.name.lock().unwrap() = name.to_owned();
        let mut command = client(&self.runtime_dir, arguments);
        command.arg("--config").arg(config);
        command
    }

    /// Runs a command, whose calls get this name.
    fn run(&self, name: &str, config: &Path, arguments: &[&str]) -> Output {
        self.command(name, config, arguments).output().unwrap()
    }
}

/// A command that finds the daemon in `runtime_dir`.
pub(crate) fn client(runtime_dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(chosen(PROGRAM));
    clear_environment(&mut command)
        .args(arguments)
        .arg("--runtime-dir")
        .arg(runtime_dir);
    command
}

/// state.json, the calls of an operator's commands, and the status that one of them printed.
fn record_node(directory: &Path) {
    let mut node = Node::registered();
    let config = node.scene.node.config_file();
    let proxy = node.scene.node.root().join("proxy");
    let recorder = Recorder::start(node.scene.control(), &proxy, directory);
    let succeed = |name: &str, arguments: &[&str]| {
        let output = recorder.run(name, &config, arguments);
        assert!(output.status.success(), "{output:?}");
    };
    succeed("wait", &["wait", NAME]);
    succeed("reannounce", &["reannounce", NAME]);
    node.wait_registered(NAME);
    succeed("withdraw", &["withdraw", OTHER]);
    node.scene.phase(OTHER, "withdrawn");
    succeed("publish", &["publish", OTHER]);
    node.wait_registered(OTHER);
    succeed("force", &["withdraw", "--force", OTHER]);
    succeed("reload", &["reload"]);
    let unknown = recorder.run("unknown", &config, &["publish", "nobody"]);
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
    let good = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{good}\n[nonsense]\n")).unwrap();
    let refused = recorder.run("refused", &config, &["reload"]);
    assert_eq!(refused.status.code(), Some(78), "{refused:?}");
    fs::write(&config, good).unwrap();
    node.scene.registrar.succeed(&["reload"]);
    node.scene.registrar.succeed(&["publish", OTHER]);
    node.wait_registered(OTHER);
    node.settle();
    let status = recorder.run("status", &config, &["status", "--json"]);
    fs::write(directory.join("status.json"), status.stdout).unwrap();
    fs::write(directory.join("state.json"), node.kill()).unwrap();
}

/// The calls of `verify`, and of `verify --repair` for a driver that the cluster has lost.
#[cfg(feature = "cluster")]
fn record_verify(directory: &Path) {
    use std::time::Duration;

    use bed::scene::{KEEP, SOON};
    use bed::{ApiServer, Process, eventually};

    use crate::setup;

    let (mut scene, _driver, kubelet) = setup().more(KEEP).registered();
    let config = scene.node.config_file();
    let server = ApiServer::start("node-1");
    server.mirror(&kubelet.cluster());
    let kubeconfig = server.kubeconfig().write(&scene.node.root().join("pki"));
    let with = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    // A registration of less than a minute is not repaired.
    scene.registrar.stop();
    let path = scene.node.runtime_dir().join("state.json");
    let mut state: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let since = &mut state["drivers"][NAME]["shown"]["since"];
    let time: jiff::Timestamp = since.as_str().unwrap().parse().unwrap();
    *since = (time - Duration::from_secs(120)).to_string().into();
    fs::write(&path, state.to_string()).unwrap();
    scene.registrar.start();
    scene.phase(NAME, "registered");
    let proxy = scene.node.root().join("proxy");
    let recorder = Recorder::start(scene.control(), &proxy, directory);
    let verified = recorder.run("verify", &config, &["verify", with[0], with[1]]);
    assert!(verified.status.success(), "{verified:?}");
    server.change(|state| state.unlist(NAME));
    let mut repair = recorder.command("repair", &config, &["verify", "--repair", with[0], with[1]]);
    let _repair = Process::logging(&mut repair, &scene.node.root().join("repair.log"));
    let answer = directory.join("control/repair-Reannounce.answer");
    eventually("the driver is announced", SOON, || answer.exists());
    // The memory of repairs, which is promised to be there.
    assert!(proxy.join("repairs.json").exists());
}

#[cfg(not(feature = "cluster"))]
fn record_verify(_directory: &Path) {
    bed::skipped("the cargo feature cluster");
}

fn files(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// The calls of a record, by the names of their files.
pub(crate) fn calls(directory: &Path) -> BTreeSet<String> {
    files(&directory.join("control"))
}

/// An older program must be able to read what this one writes: state.json and the messages of the control socket.
#[test]
fn a_release_writes_files_and_messages_that_other_releases_can_read() {
    let is_asked = std::env::var_os(ASKED).is_some();
    assert!(
        !is_asked || !is_released(VERSION),
        "{VERSION} is released: a later version needs another number before it is recorded"
    );
    let temporary = tempfile::tempdir().unwrap();
    let directory = match is_asked {
        true => root().join(VERSION),
        false => temporary.path().to_owned(),
    };
    record_node(&directory);
    record_verify(&directory);
    if is_asked {
        let config = directory.join("config.toml");
        fs::write(
            directory.join("config.effective"),
            configuration::recorded(&config),
        )
        .unwrap();
    }
    let last = Release::recorded().pop().unwrap();
    if cfg!(feature = "cluster") {
        assert_eq!(calls(&directory), calls(&last.directory));
    }
    let state = fs::read(directory.join("state.json")).unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    let format = format!("format is {}", state["format"]);
    let mut lines = Shape::of(&MAPS, &[state]).lines();
    lines.push(format);
    // Not every file system knows when a file was created.
    lines.retain(|line| !line.contains(".born"));
    keeps("state.json", lines);
}

#[test]
fn every_message_of_the_control_socket_keeps_its_fields() {
    keeps("control.sock", messages());
}

/// The fields of the messages by their numbers, as the .proto file has them: the numbers and types are what travels.
fn messages() -> Vec<String> {
    let source = include_str!("../../proto/control.proto");
    let mut within = "";
    let mut lines = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ").or(line.strip_prefix("enum ")) {
            within = name.split(' ').next().unwrap();
        } else if let Some((field, number)) = line.split_once(" = ")
            && !within.is_empty()
        {
            let number = number.trim_end_matches(';');
            lines.push(format!("{within} {number}: {field}"));
        } else if let Some(method) = line.strip_prefix("rpc ") {
            lines.push(method.trim_end_matches(';').to_owned());
        } else if line.starts_with("package ") || line.starts_with("service ") {
            // Both are in the path of every call.
            lines.push(line.trim_end_matches([';', ' ', '{']).to_owned());
        }
    }
    assert!(lines.len() > 60, "{lines:?}");
    lines
}
