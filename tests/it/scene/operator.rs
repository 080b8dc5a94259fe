//! A node with the registrar on it, and what most tests here ask of the two.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use bed::{DriverStatus, Node, Registrar};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_node-storage-driver-registrar");
pub(crate) const NAME: &str = "local.csi.paas.cucloud";
pub(crate) const OTHER: &str = "nfs.csi.k8s.io";
/// Generous: the machine may be busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A node and its registrar. What else runs there is the test's own.
pub(crate) struct Scene {
    pub(crate) registrar: Registrar,
    pub(crate) node: Node,
}

impl Scene {
    /// The kubelet's directory is there, `drivers` are configured, followed by `more` tables of
    /// TOML; nothing runs yet.
    pub(crate) fn new(drivers: &[&str], more: &str) -> Scene {
        let node = Node::new();
        node.make_kubelet_registry_dir();
        node.write_default_config(drivers, more);
        Scene {
            registrar: Registrar::new(PROGRAM, &node),
            node,
        }
    }

    /// The same, and the registrar runs.
    pub(crate) fn started(drivers: &[&str], more: &str) -> Scene {
        let mut scene = Scene::new(drivers, more);
        scene.registrar.start();
        scene
    }

    /// The same with HTTP on [`Self::http`].
    pub(crate) fn with_http(drivers: &[&str]) -> Scene {
        let mut scene = Scene::new(drivers, "");
        scene.listen(drivers, &format!("unix:{}", scene.http().display()));
        scene.registrar.start();
        scene
    }

    /// Writes the configuration with this as `http.listen`.
    pub(crate) fn listen(&self, drivers: &[&str], listen: &str) {
        self.node
            .write_default_config(drivers, &format!("[http]\nlisten = {listen:?}\n"));
    }

    pub(crate) fn http(&self) -> PathBuf {
        self.node.runtime_dir().join("http.sock")
    }

    /// Waits until the driver is in the phase.
    #[track_caller]
    pub(crate) fn phase(&self, id: &str, phase: &str) -> DriverStatus {
        self.registrar.wait_phase(id, phase, SOON)
    }

    /// A command of the binary for this node, to be run by the test's own means.
    pub(crate) fn command_line(&self, subcommand: &str) -> Vec<String> {
        let program = std::env::var("REGISTRAR_BIN").unwrap_or_else(|_| PROGRAM.to_owned());
        let text = |path: PathBuf| path.display().to_string();
        vec![
            program,
            subcommand.to_owned(),
            "--config".to_owned(),
            text(self.node.config_file()),
            "--runtime-dir".to_owned(),
            text(self.node.runtime_dir()),
        ]
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Whether a program is installed; says loudly when a test goes without it. In CI it must be there.
pub(crate) fn has(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).any(|dir| Path::new(&dir).join(program).exists());
    if !found {
        bed::skipped(program);
    }
    found
}
/// Runs a program with this on its stdin.
#[track_caller]
pub(crate) fn pipe(program: &str, arguments: &[&str], input: &str) -> Output {
    use std::io::Write;
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}
