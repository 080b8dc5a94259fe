//! `kubelet.root_dir = "auto"`: the registrar finds the kubelet's root directory.

use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use bed::scene::{NAME, SOON};
use bed::{
    Container, KubeletProcess, Process, Registrar, Release, Scene, Settings, Timing, eventually,
    script, stdout,
};
use nix::fcntl::{Flock, FlockArg};

use crate::{PROGRAM, setup};

/// Every registrar on this machine sees the processes of these tests, so they run one at a time, even
/// across test runs.
pub(crate) fn alone() -> Flock<File> {
    let everybodys = File::open("/tmp").unwrap();
    Flock::lock(everybodys, FlockArg::LockExclusive).unwrap()
}

/// A node with `root_dir = "auto"`.
fn auto() -> Scene {
    let scene = setup().discovery().set();
    let config = scene.node.default_config(&[NAME]);
    let root = scene.node.kubelet_root();
    let config = config.replace(&format!("{root:?}"), "\"auto\"");
    scene.node.write_config(&config);
    scene
}

/// A process that looks like a kubelet.
pub(crate) struct Impostor(Process);

impl Impostor {
    /// With this root directory.
    fn start(root: &Path) -> Impostor {
        Impostor::with_flags(&[format!("--root-dir={}", root.display())])
    }

    /// With these flags.
    pub(crate) fn with_flags(flags: &[String]) -> Impostor {
        let mut command = Command::new("/bin/sh");
        command
            .arg0("kubelet")
            .args(["-c", "read line"])
            .args(flags);
        Impostor(Process::start(command.stdin(Stdio::piped())))
    }

    /// The same in a container.
    fn within(container: Command, root: &Path) -> Impostor {
        let argument = format!("--root-dir={}", root.display());
        let mut container = container;
        container.args(["-c", "exec -a kubelet sh -c 'read line' \"$0\"", &argument]);
        let process = Process::start(container.stdin(Stdio::piped()));
        let line = format!("kubelet\0-c\0read line\0{argument}\0");
        eventually("the process runs under its name", SOON, || {
            let processes = fs::read_dir("/proc").unwrap();
            let lines = processes.map(|process| process.unwrap().path().join("cmdline"));
            lines
                .filter_map(|path| fs::read(path).ok())
                .any(|found| found == line.as_bytes())
        });
        Impostor(process)
    }
}

#[test]
fn the_root_of_a_kubelet_that_runs_is_taken_and_kept_over_a_reload_without_it() {
    let _alone = alone();
    let mut scene = auto();
    let root = scene.node.kubelet_root();
    let config = fs::read_to_string(scene.node.config_file()).unwrap();
    let impostor = Impostor::start(&root);
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    let said = stdout(&scene.registrar.succeed(&["check"]));
    let pid = impostor.0.pid();
    let why = format!("kubelet (pid {pid}) names it on its command line");
    assert!(said.contains(&why), "{said}");
    let explained = stdout(&scene.registrar.succeed(&["config"]));
    let line = explained
        .lines()
        .find(|line| line.starts_with("kubelet.root_dir"));
    let line = line.unwrap();
    assert!(line.contains(&format!("{root:?}")), "{line}");
    assert!(line.contains(&why), "{line}");
    scene.registrar.start();
    kubelet.wait_registered(NAME, SOON);
    eventually("the log says why", SOON, || {
        scene.registrar.logs().contains(&why)
    });
    let mark = kubelet.mark();
    drop(impostor);
    scene.registrar.succeed(&["reload"]);
    scene.phase(NAME, "registered");
    assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
    scene.registrar.kill9();
    let words = "the kubelet that last called uses it";
    let said = stdout(&scene.registrar.succeed(&["check"]));
    assert!(said.contains(words), "{said}");
    scene.registrar.start();
    scene.phase(NAME, "registered");
    assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
    assert!(scene.registrar.logs().contains(words));
    // The root that was found counts when the registrar checks for nested directories.
    let below = scene.node.kubelet_registry_dir().join("ours");
    let ours = format!("registry_dir = {:?}", scene.node.registry_dir());
    let nested = config.replace(&ours, &format!("registry_dir = {below:?}"));
    scene.node.write_config(&nested);
    for command in ["check", "reload"] {
        let output = scene.registrar.run_cli([command]);
        assert_eq!(output.status.code(), Some(78), "{command}: {output:?}");
    }
    scene.phase(NAME, "registered");
    assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
}

/// Root in a container can call its process kubelet and name any directory: in its own pid namespace,
/// as pods do, or in the node's (hostPID), or with the node's files and its own mounts.
#[test]
fn no_process_in_a_container_is_taken_for_the_kubelet() {
    if !Container::can_be_had() {
        return;
    }
    let _alone = alone();
    let mut scene = auto();
    let root = scene.node.kubelet_root();
    // As under the shipped unit, which may not read other processes' files.
    let program = bed::registrar::chosen(PROGRAM);
    let wrapper = scene.node.root().join("registrar");
    let line = "exec setpriv --bounding-set=-all --inh-caps=-all";
    let text = format!("#!/bin/sh\n{line} {} \"$@\"\n", program.display());
    script::write(&wrapper, &text);
    scene.registrar = Registrar::exactly(wrapper, &scene.node);
    let view = |name: &str| Container::new(scene.node.root().join(name));
    let mut own_mounts = Command::new("unshare");
    own_mounts.args(["--mount", "bash"]);
    let containers = [
        view("pod").with_own_pids().command("bash"),
        view("host-pid").command("bash"),
        own_mounts,
    ];
    // They come first: the registrar prefers a lower pid.
    let elsewhere = scene.node.root().join("elsewhere");
    let contained = containers.map(|container| Impostor::within(container, &elsewhere));
    // A pod knows the node's paths of its volumes, and can listen there as a kubelet does.
    fs::create_dir_all(elsewhere.join("pod-resources")).unwrap();
    let _listener = UnixListener::bind(elsewhere.join("pod-resources/kubelet.sock")).unwrap();
    let check = || stdout(&scene.registrar.succeed(&["check"]));
    let said = check();
    assert!(!said.contains(&elsewhere.display().to_string()), "{said}");
    let own = Impostor::start(&root);
    let said = check();
    let why = format!("kubelet (pid {}) names it on its command line", own.0.pid());
    assert!(said.contains(&why), "{said}");
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.registrar.start();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let mark = kubelet.mark();
    drop(own);
    scene.registrar.succeed(&["reload"]);
    scene.phase(NAME, "registered");
    scene.registrar.kill9();
    scene.registrar.start();
    scene.phase(NAME, "registered");
    assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
    drop(contained);
}

#[test]
fn kubelets_that_disagree_are_not_followed_and_what_was_known_stays() {
    let _alone = alone();
    let mut scene = auto();
    let root = scene.node.kubelet_root();
    let elsewhere = scene.node.root().join("elsewhere");
    // By its pid, the second would come first.
    let second = Impostor::start(&elsewhere);
    let first = Impostor::start(&root);
    let names = |text: &str, words: &str| {
        let both = [&first, &second].map(|one| format!("pid {}", one.0.pid()));
        text.contains(words) && both.iter().all(|pid| text.contains(pid))
    };
    let words = "kubelets disagree";
    let said = stdout(&scene.registrar.succeed(&["check"]));
    assert!(names(&said, words), "{said}");
    let shown = format!("{}/plugins_registry", elsewhere.display());
    assert!(!said.contains(&shown), "{said}");
    let report = stdout(&scene.registrar.run_cli(["doctor", "--json"]));
    assert!(
        names(&report, "kubelets with different root directories run"),
        "{report}"
    );
    drop(second);
    scene.registrar.start();
    scene.wait_up();
    let registry = || scene.registrar.status().unwrap().kubelet.registry_dir;
    let known = registry();
    assert_eq!(
        known,
        scene.node.kubelet_registry_dir().display().to_string()
    );
    let second = Impostor::start(&elsewhere);
    scene.registrar.succeed(&["reload"]);
    assert_eq!(registry(), known);
    let logs = scene.registrar.logs();
    assert!(
        logs.contains(words) && logs.contains(&format!("pid {}", second.0.pid())),
        "{logs}"
    );
}

#[test]
fn the_process_behind_the_pod_resources_socket_is_believed() {
    let _alone = alone();
    let mut scene = auto();
    let root = scene.node.kubelet_root();
    let impostor = Impostor::start(&root);
    let settings = Settings::new(&root, Release::V1_36).with_timing(Timing::faster(10));
    let mut kubelet = KubeletProcess::start(settings);
    let _driver = scene.node.driver(NAME);
    scene.registrar.start();
    scene.phase(NAME, "registered");
    drop(impostor);
    scene.registrar.kill9();
    let words = "the kubelet that last called uses it and still runs";
    let said = stdout(&scene.registrar.succeed(&["check"]));
    assert!(said.contains(words), "{said}");
    kubelet.restart();
    let said = eventually("the socket is there again", SOON, || {
        let said = stdout(&scene.registrar.succeed(&["check"]));
        if said.contains("listens on pod-resources/kubelet.sock") {
            Ok(said)
        } else {
            Err(said)
        }
    });
    assert!(said.contains(&root.display().to_string()), "{said}");
}

#[test]
fn the_doctor_says_that_a_kubelet_in_a_container_has_to_be_named() {
    if !Container::can_be_had() {
        return;
    }
    let _alone = alone();
    let mut scene = auto();
    let elsewhere = scene.node.root().join("elsewhere");
    let view = Container::new(scene.node.root().join("pod")).with_own_pids();
    let _contained = Impostor::within(view.command("bash"), &elsewhere);
    let _driver = scene.node.driver(NAME);
    scene.registrar.start();
    scene.wait_up();
    let report = stdout(&scene.registrar.run_cli(["doctor", "--json"]));
    let fix = format!(
        "if it is this node's kubelet, set kubelet.root_dir = \\\"{}\\\"",
        elsewhere.display()
    );
    assert!(
        report.contains("believes no process in a container"),
        "{report}"
    );
    assert!(report.contains(&fix), "{report}");
}
