//! `kubelet.root_dir = "auto"`, from outside.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use bed::{Layout, eventually};

use crate::scene::{NAME, SOON, Scene, stdout};

/// A process that looks like a kubelet with this root directory.
struct Impostor(Child);

impl Impostor {
    fn start(root: &std::path::Path) -> Impostor {
        let child = Command::new("/bin/sh")
            .arg0("kubelet")
            .args(["-c", "read line"])
            .arg(format!("--root-dir={}", root.display()))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        Impostor(child)
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn the_root_of_a_kubelet_that_runs_is_taken_and_kept_over_a_reload_without_it() {
    let mut scene = Scene::new(Layout::TwoDirectories, "");
    let root = scene.node.kubelet_root();
    let config = scene.node.default_config(&[NAME]);
    let config = config.replace(&format!("{root:?}"), "\"auto\"");
    scene.node.write_config(&config);
    let impostor = Impostor::start(&root);
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    let said = stdout(&scene.registrar.succeed(&["check"]));
    let pid = impostor.0.id();
    let why = format!("kubelet, pid {pid}, has it on its command line");
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
    let words = "the last that called had it";
    let said = stdout(&scene.registrar.succeed(&["check"]));
    assert!(said.contains(words), "{said}");
    scene.registrar.start();
    scene.phase(NAME, "registered");
    assert_eq!(kubelet.counts_since(mark), bed::kubelet::Counts::default());
    assert!(scene.registrar.logs().contains(words));
    // What was found counts where the kubelet would look twice.
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
