//! The modes of everything that the daemon makes, whatever umask it is started with.

use std::fs;
use std::process::{Child, Command, Stdio};

use bed::{eventually, registrar};

use crate::scene::hostile::{NAME, PROGRAM, SOON, Scene, mode};

/// Ends with this.
struct Daemon(Child);

impl Daemon {
    /// A shell sets the umask, and becomes the daemon.
    fn with_umask(umask: &str, scene: &Scene) -> Daemon {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("umask {umask}; exec \"$@\""), "sh"])
            .arg(registrar::chosen(PROGRAM))
            .args(["run", "--config"])
            .arg(scene.node.config_file())
            .arg("--runtime-dir")
            .arg(scene.node.runtime_dir())
            .stderr(Stdio::null());
        Daemon(shell.spawn().unwrap())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Starts the daemon on a node where it has to make all directories itself, and has a driver
/// registered.
fn with_umask(umask: &str, check: impl FnOnce(&Scene)) {
    let scene = Scene::new(&[NAME], "");
    fs::remove_dir(scene.node.runtime_dir()).unwrap();
    let _daemon = Daemon::with_umask(umask, &scene);
    let _driver = scene.node.driver(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    eventually("http is served", SOON, || scene.http().exists());
    check(&scene);
}

/// What is in the runtime directory and the registry, with the modes that docs/security.md has.
#[track_caller]
fn files_are_narrow(scene: &Scene) {
    let runtime = scene.node.runtime_dir();
    for name in ["lock", "state.json", "control.sock"] {
        assert_eq!(mode(&runtime.join(name)), 0o600, "{name}");
    }
    assert_eq!(mode(&scene.node.reg_socket(NAME)), 0o600);
    assert_eq!(mode(&scene.http()), 0o666);
    // Nothing else is left there, such as a file under a temporary name.
    let count = |directory| fs::read_dir(directory).unwrap().count();
    assert_eq!(count(runtime), 4);
    assert_eq!(count(scene.node.registry_dir()), 1);
    assert_eq!(count(scene.node.kubelet_registry_dir()), 1);
}

#[test]
fn an_open_umask_opens_nothing() {
    with_umask("000", |scene| {
        files_are_narrow(scene);
        assert_eq!(mode(&scene.node.runtime_dir()), 0o755);
        assert_eq!(mode(&scene.node.registry_dir()), 0o755);
    });
}

#[test]
fn the_umask_of_the_unit_closes_nothing_that_must_be_open() {
    with_umask("077", |scene| {
        files_are_narrow(scene);
        // http.sock in it is for others, too.
        assert_eq!(mode(&scene.node.runtime_dir()), 0o755);
        // Drivers of other users live below the same parents.
        assert_eq!(mode(&scene.node.registry_dir()), 0o755);
        let parent = scene.node.registry_dir().parent().unwrap().to_owned();
        assert_eq!(mode(&parent), 0o755);
    });
}
