//! `kubelet.root_dir = "auto"`: the registrar finds the kubelet's root among the well-known directories.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use bed::scene::{NAME, SOON};
use bed::{
    Container, KubeletProcess, Mounts, Process, Release, Scene, Settings, Timing, eventually,
    skipped, stdout,
};
use nix::fcntl::{Flock, FlockArg};

use crate::setup;

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
    /// With these flags.
    pub(crate) fn with_flags(flags: &[String]) -> Impostor {
        let mut command = Command::new("/bin/sh");
        command
            .arg0("kubelet")
            .args(["-c", "read line"])
            .args(flags);
        Impostor(Process::start(command.stdin(Stdio::piped())))
    }

    /// The same in a container, with this flag.
    pub(crate) fn within(container: Command, argument: &str) -> Impostor {
        let mut container = container;
        container.args(["-c", "exec -a kubelet sh -c 'read line' \"$0\"", argument]);
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

/// A well-known directory of this scene alone.
const K0S: &str = "/var/lib/k0s/kubelet";

/// The kubelet's root of the scene is a well-known directory for this thread and its children.
fn at_a_well_known_place(scene: &Scene) -> Option<Mounts> {
    let mut mounts = Mounts::private()?;
    mounts.tmpfs(Path::new("/var/lib"), 1000, 1 << 20);
    fs::create_dir_all(K0S).unwrap();
    mounts.bind(&scene.node.kubelet_root(), Path::new(K0S));
    Some(mounts)
}

#[test]
fn the_root_in_which_a_kubelet_listens_is_taken_and_kept_while_none_runs() {
    let mut scene = auto();
    let Some(mounts) = at_a_well_known_place(&scene) else {
        return skipped("root, to mount");
    };
    let config = fs::read_to_string(scene.node.config_file()).unwrap();
    let check = |scene: &Scene| stdout(&scene.registrar.succeed(&["check"]));
    let said = check(&scene);
    assert!(
        said.contains("only this one has plugins_registry"),
        "{said}"
    );
    let settings = Settings::new(scene.node.kubelet_root(), Release::V1_36);
    let mut kubelet = KubeletProcess::start(settings.with_timing(Timing::faster(10)));
    let _driver = scene.node.driver(NAME);
    // A kubelet that has left its directory behind does not count beside it.
    fs::create_dir_all("/var/lib/kubelet/plugins_registry").unwrap();
    let pid = kubelet.pid().unwrap();
    let why = format!("pid {pid} listens on pod-resources/kubelet.sock in it");
    let said = check(&scene);
    assert!(said.contains(&why), "{said}");
    assert!(said.contains(&format!("{K0S}/plugins_registry")), "{said}");
    let explained = stdout(&scene.registrar.succeed(&["config"]));
    let line = explained
        .lines()
        .find(|line| line.starts_with("kubelet.root_dir"));
    let line = line.unwrap();
    assert!(line.contains(K0S) && line.contains(&why), "{line}");
    scene.registrar.start();
    scene.phase(NAME, "registered");
    eventually("the log says why", SOON, || {
        scene.registrar.logs().contains(&why)
    });
    // Neither the daemon nor, after its end, its state forgets the root.
    kubelet.kill9();
    scene.phase(NAME, "waiting-for-kubelet");
    scene.registrar.succeed(&["reload"]);
    let registry = scene.registrar.status().unwrap().kubelet.plugins_registry;
    assert_eq!(registry, format!("{K0S}/plugins_registry"));
    let kept = "this one was used last";
    assert!(scene.registrar.logs().contains(kept));
    scene.registrar.kill9();
    let said = check(&scene);
    assert!(said.contains(K0S) && said.contains(kept), "{said}");
    kubelet.restart();
    scene.registrar.start();
    scene.phase(NAME, "registered");
    let mark = kubelet.mark();
    scene.registrar.succeed(&["reload"]);
    // The root that was found counts when the registrar checks for nested directories.
    let below = format!("{K0S}/plugins_registry/ours");
    let ours = format!("registry_dir = {:?}", scene.node.registry_dir());
    let nested = config.replace(&ours, &format!("registry_dir = {below:?}"));
    scene.node.write_config(&nested);
    for command in ["check", "reload"] {
        let output = scene.registrar.run_cli([command]);
        assert_eq!(output.status.code(), Some(78), "{command}: {output:?}");
    }
    scene.phase(NAME, "registered");
    assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
    drop(scene);
    drop(mounts);
}

#[test]
fn no_command_line_is_followed_and_the_doctor_names_the_root_of_a_kubelet_elsewhere() {
    let _alone = alone();
    let mut scene = auto();
    let elsewhere = scene.node.root().join("elsewhere");
    let elsewhere = elsewhere.display();
    let own = Impostor::with_flags(&[format!("--root-dir={elsewhere}")]);
    let said = stdout(&scene.registrar.succeed(&["check"]));
    assert!(!said.contains(&elsewhere.to_string()), "{said}");
    let _driver = scene.node.driver(NAME);
    scene.registrar.start();
    scene.wait_up();
    let doctor = || stdout(&scene.registrar.run_cli(["doctor", "--json"]));
    let report = doctor();
    let words = format!(
        "root directory is {elsewhere} (kubelet (pid {}) names it on its command line)",
        own.0.pid()
    );
    assert!(report.contains(&words), "{report}");
    let fix = format!("set kubelet.root_dir = \\\"{elsewhere}\\\" and reload");
    assert!(report.contains(&fix), "{report}");
    drop(own);
    if !Container::can_be_had() {
        return;
    }
    let view = Container::new(scene.node.root().join("pod")).with_own_pids();
    let argument = format!("--root-dir={elsewhere}");
    let _contained = Impostor::within(view.command("bash"), &argument);
    let report = doctor();
    assert!(report.contains("any pod can say so"), "{report}");
    assert!(
        report.contains(&format!("if it is this node's kubelet, {fix}")),
        "{report}"
    );
}
