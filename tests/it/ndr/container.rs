//! A kubelet, or a registrar, that runs in a container and has other paths for the same files.

use std::path::Path;

use bed::scene::{NAME, SOON, is_nothing};
use bed::{
    Behaviour, Container, FakeDriver, KubeletProcess, KubeletScene, Layout, Node, Registrar,
    Release, Settings, Timing,
};
use serde_json::Value;

use crate::PROGRAM;
use crate::ndr::command_lines::{SIDECARS, endpoint as endpoint_of};
use crate::ndr::unit::Unit;

/// The host's storage directory in the kubelet's container.
const STORAGE: &str = "/storage";

/// A node whose kubelet runs in a container: its root directory is mounted at the same path, as
/// usual, and the storage directory at another. Everything runs. The registrar has `keys` in its table
/// `[kubelet]` and `table` for the driver.
fn with_kubelet_in_container(keys: &str, table: &str) -> KubeletScene {
    let node = Node::new();
    node.make_plugins_registry();
    let config = node.default_config(&[]);
    node.write_config(&format!("{config}{keys}\n[drivers.{NAME:?}]\n{table}\n"));
    let root = node.kubelet_root();
    let view = Container::new(node.root().join("container"))
        .mounted(&root, &root)
        .mounted(node.root().join("vdata/storage"), STORAGE);
    let driver = node.driver(NAME);
    let mut registrar = Registrar::new(PROGRAM, &node);
    registrar.start();
    KubeletScene {
        registrar,
        kubelet: KubeletProcess::start_in(view, node.kubelet_settings(Release::V1_36)),
        driver,
        id: NAME,
        node,
    }
}

/// The doctor's findings, and whether it exits with 0.
fn doctor(scene: &KubeletScene) -> (bool, Vec<Value>) {
    let output = scene.registrar.run_cli(["doctor", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap().clone();
    (output.status.success(), findings)
}

fn sees_registry_as() -> String {
    format!("sees_registry_as = \"{STORAGE}/plugins_registry\"")
}

fn endpoint() -> String {
    format!("{STORAGE}/plugins/{NAME}/csi.sock")
}

#[test]
fn a_kubelet_in_a_container_registers_through_the_paths_that_it_sees() {
    if !Container::can_be_had() {
        return;
    }
    let table = format!("endpoint = {:?}", endpoint());
    let mut scene = with_kubelet_in_container(&sees_registry_as(), &table);
    assert_eq!(scene.kubelet.wait_registered(NAME, SOON), endpoint());
    scene.registrar.wait_phase(NAME, "registered", SOON);
    // The mounts of this container are private, so that no mount of the driver would arrive there.
    let (content, findings) = doctor(&scene);
    assert!(!content && findings.len() == 1, "{findings:#?}");
    assert_eq!(findings[0]["check"], "mount propagation", "{findings:#?}");
    assert_says(
        &findings[0],
        "fix",
        Path::new("run the container of the kubelet with"),
    );
    // The kubelet does not notice a restart of the registrar there either.
    let mark = scene.kubelet.mark();
    scene.registrar.kill9();
    scene.registrar.start();
    scene.registrar.wait_phase(NAME, "registered", SOON);
    let counts = scene.kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (0, 0));
}

#[test]
fn a_kubelet_that_does_not_see_our_paths_is_what_the_doctor_names_first() {
    if !Container::can_be_had() {
        return;
    }
    let scene = with_kubelet_in_container("", "");
    let reg_socket = scene.node.reg_socket(NAME);
    let first = first_finding(&scene);
    assert_eq!(first["check"], "kubelet's view of reg.sock", "{first:#?}");
    assert_says(&first, "found", &reg_socket);
    assert_says(&first, "fix", Path::new("kubelet.sees_registry_as"));

    let scene = with_kubelet_in_container(&sees_registry_as(), "");
    let first = first_finding(&scene);
    assert_eq!(first["check"], "kubelet's view of csi.sock", "{first:#?}");
    assert_says(&first, "found", scene.driver.path());
    assert_says(&first, "fix", Path::new("the driver's endpoint"));
}

#[track_caller]
fn first_finding(scene: &KubeletScene) -> Value {
    scene.wait_driver("the driver answers", |driver| {
        driver.phase != "waiting-for-driver"
    });
    let (content, findings) = doctor(scene);
    assert!(!content, "{findings:#?}");
    findings[0].clone()
}

/// As in a pod of a DaemonSet: the driver's directory and the kubelet's are mounted at the sidecar's
/// default paths, and the command line is unchanged.
#[test]
fn the_sidecars_of_well_known_drivers_register_from_a_pod_with_their_own_paths() {
    if !Container::can_be_had() {
        return;
    }
    for (name, line) in SIDECARS {
        let node = Node::new();
        let root = node.kubelet_root();
        let host = Container::new(node.root().join("host")).mounted(&root, "/var/lib/kubelet");
        let settings = Settings::new("/var/lib/kubelet", Release::V1_36);
        std::fs::create_dir_all(&root).unwrap();
        let kubelet = KubeletProcess::start_in(host, settings.with_timing(Timing::faster(10)));
        let endpoint = endpoint_of(line);
        let plugin = root.join(endpoint.trim_start_matches("/var/lib/kubelet/"));
        let _driver = FakeDriver::start_in_new_directory(&plugin, Behaviour::named(name));
        let program = bed::registrar::chosen(PROGRAM);
        let inside = if line.iter().any(|word| word.contains("/plugin/")) {
            "/plugin"
        } else {
            "/csi"
        };
        let pod = Container::new(node.root().join("pod"))
            .mounted(program.parent().unwrap(), "/image")
            .mounted(plugin.parent().unwrap(), inside)
            .mounted(root.join("plugins_registry"), "/registration");
        let mut command = pod.command(Path::new("/image").join(program.file_name().unwrap()));
        bed::registrar::clear_environment(&mut command).args(line);
        let unit = Unit::spawn(command, node.root().join("log"));
        assert_eq!(kubelet.wait_registered(name, SOON), endpoint, "{name}");
        unit.stop();
        kubelet.wait_deregistered(name, SOON);
        assert!(is_nothing(&node.link(name)), "{name}");
    }
}

/// A pod without hostPID that mounts only the driver's directory and the kubelet's: it sees neither the
/// kubelet's process nor its start.
struct Pod {
    kubelet: KubeletProcess,
    _driver: FakeDriver,
    unit: Option<Unit>,
    node: Node,
}

impl Pod {
    fn registered(release: Release) -> Pod {
        let node = Node::with_layout(Layout::OneDirectory);
        let root = node.kubelet_root();
        std::fs::create_dir_all(&root).unwrap();
        let settings = Settings::new(&root, release).with_timing(Timing::faster(10));
        let socket = root.join("plugins/d/csi.sock");
        let mut pod = Pod {
            kubelet: KubeletProcess::start(settings),
            _driver: FakeDriver::start_in_new_directory(&socket, Behaviour::named(NAME)),
            unit: None,
            node,
        };
        pod.start();
        pod.kubelet.wait_registered(NAME, SOON);
        pod
    }

    /// A new container, without the files of the last one.
    fn start(&mut self) {
        self.unit = None;
        let root = self.node.kubelet_root();
        let program = bed::registrar::chosen(PROGRAM);
        let pod = Container::new(self.node.root().join("pod"))
            .with_own_pids()
            .mounted(program.parent().unwrap(), "/image")
            .mounted(root.join("plugins/d"), "/csi")
            .mounted(root.join("plugins_registry"), "/registration");
        let mut command = pod.command(Path::new("/image").join(program.file_name().unwrap()));
        let path = root.join("plugins/d/csi.sock");
        bed::registrar::clear_environment(&mut command)
            .arg("--csi-address=/csi/csi.sock")
            .arg(format!("--kubelet-registration-path={}", path.display()));
        self.unit = Some(Unit::spawn(command, self.node.root().join("log")));
    }

    /// The file that the kubelet finds in its directory.
    fn is_link(&self) -> bool {
        self.node.link(NAME).is_symlink()
    }
}

/// A kubelet that follows links at its start keeps its link, and does not see restarts of the
/// registrar.
#[test]
fn a_newer_kubelet_that_a_pod_cannot_see_keeps_its_link() {
    if !Container::can_be_had() {
        return;
    }
    for release in [Release::V1_35, Release::V1_36] {
        let mut pod = Pod::registered(release);
        let unit = pod.unit.as_ref().unwrap();
        unit.wait_log("registered by a kubelet whose pid is not visible");
        let mark = pod.kubelet.mark();
        pod.kubelet.restart();
        pod.kubelet.wait_registered(NAME, SOON);
        let counts = pod.kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 0));
        assert!(pod.is_link());
    }
}

#[track_caller]
fn assert_says(finding: &Value, key: &str, words: &Path) {
    let said = finding[key].as_str().unwrap();
    assert!(said.contains(&words.display().to_string()), "{finding:#?}");
}
