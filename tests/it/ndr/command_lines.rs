//! Command lines of node-driver-registrar that are in use, with this project's binary.

use std::fs;
use std::os::unix::fs::symlink;

use bed::scene::{SOON, is_nothing};
use bed::{Behaviour, FakeDriver, Layout, Node};

use crate::ndr::unit::{Unit, command, output};

/// The names of well-known drivers, and the arguments of their containers.
pub(crate) const SIDECARS: [(&str, &[&str]); 6] = [
    (
        "nfs.csi.k8s.io",
        &[
            "--v=2",
            "--csi-address=/csi/csi.sock",
            "--kubelet-registration-path=/var/lib/kubelet/plugins/csi-nfsplugin/csi.sock",
        ],
    ),
    (
        "ebs.csi.aws.com",
        &[
            "--csi-address=/csi/csi.sock",
            "--kubelet-registration-path=/var/lib/kubelet/plugins/ebs.csi.aws.com/csi.sock",
            "--v=2",
            "--logging-format=text",
        ],
    ),
    (
        "rbd.csi.ceph.com",
        &[
            "--v=1",
            "--csi-address=/csi/csi.sock",
            "--kubelet-registration-path=/var/lib/kubelet/plugins/rbd.csi.ceph.com/csi.sock",
        ],
    ),
    (
        "cinder.csi.openstack.org",
        &[
            "-v=1",
            "--csi-address=/csi/csi.sock",
            "--kubelet-registration-path=/var/lib/kubelet/plugins/cinder.csi.openstack.org/csi.sock",
            "--timeout=3m",
        ],
    ),
    (
        "local.csi.openebs.io",
        &[
            "--v=5",
            "--csi-address=/plugin/csi.sock",
            "--kubelet-registration-path=/var/lib/kubelet/plugins/lvm-localpv/csi.sock",
        ],
    ),
    (
        "hostpath.csi.k8s.io",
        &[
            "--v=5",
            "--csi-address",
            "/csi/csi.sock",
            "--kubelet-registration-path",
            "/var/lib/kubelet/plugins/csi-hostpath/csi.sock",
        ],
    ),
];

/// As a pod's mounts do: the container's paths lead to the node's.
fn mounted(node: &Node, argument: &str) -> String {
    let root = node.root().display();
    argument
        .replace(
            "/var/lib/kubelet/",
            &format!("{}/", node.kubelet_root().display()),
        )
        .replace("/csi/csi.sock", &format!("{root}/csi/csi.sock"))
        .replace("/plugin/csi.sock", &format!("{root}/csi/csi.sock"))
}

/// The path of csi.sock for the kubelet.
pub(crate) fn endpoint<A: AsRef<str>>(line: &[A]) -> &str {
    line.iter()
        .map(|word| {
            word.as_ref()
                .trim_start_matches("--kubelet-registration-path=")
        })
        .find(|word| word.contains("/plugins/"))
        .unwrap()
}

/// The directory of the registration socket. In a pod it is mounted at /registration.
fn registration(node: &Node) -> Vec<String> {
    let mut flags = vec![format!(
        "--plugin-registration-path={}",
        node.registry_dir().display()
    )];
    if node.layout() == Layout::TwoDirectories {
        let kubelets = node.plugins_registry();
        flags.push(format!("--kubelet-plugins-registry={}", kubelets.display()));
    }
    flags
}

#[test]
fn the_sidecars_of_well_known_drivers_start_unchanged_and_register() {
    for (name, line) in SIDECARS {
        for layout in Layout::ALL {
            let node = Node::with_layout(layout);
            let kubelet = node.kubelet();
            let line: Vec<String> = line.iter().map(|word| mounted(&node, word)).collect();
            let endpoint = endpoint(&line).to_owned();
            let csi = node.root().join("csi");
            let _driver =
                FakeDriver::start_in_new_directory(csi.join("csi.sock"), Behaviour::named(name));
            let seen = std::path::Path::new(&endpoint).parent().unwrap();
            fs::create_dir_all(seen.parent().unwrap()).unwrap();
            symlink(&csi, seen).unwrap();
            let line = [line, registration(&node)].concat();
            let unit = Unit::start(&line, Some(&node.runtime_dir()), node.root().join("log"));
            assert_eq!(kubelet.wait_registered(name, SOON), endpoint, "{name}");
            assert!(node.link(name).is_symlink());
            unit.stop();
            kubelet.wait_deregistered(name, SOON);
            assert!(is_nothing(&node.link(name)) && is_nothing(&node.reg_socket(name)));
        }
    }
}

/// The unit that this project replaces: node-driver-registrar on the host, and `ln -s`.
pub(crate) fn hand_run(node: &Node, id: &str) -> Vec<String> {
    let socket = node.csi_socket(id);
    let line = vec![
        format!("-csi-address={}", socket.display()),
        format!("-kubelet-registration-path={}", socket.display()),
        "-v=5".to_owned(),
        "-logtostderr=true".to_owned(),
        "-connection-timeout=10s".to_owned(),
        "-enable-pprof=true".to_owned(),
        "-mode=registration".to_owned(),
    ];
    [line, registration(node)].concat()
}

#[test]
fn a_hand_run_unit_starts_unchanged_and_registers() {
    for layout in Layout::ALL {
        let node = Node::with_layout(layout);
        let kubelet = node.kubelet();
        let driver =
            FakeDriver::start_in_new_directory(node.csi_socket("a"), Behaviour::named("a.test"));
        let unit = Unit::start(
            &hand_run(&node, "a"),
            Some(&node.runtime_dir()),
            node.root().join("log"),
        );
        let endpoint = kubelet.wait_registered("a.test", SOON);
        assert_eq!(endpoint, driver.path().display().to_string());
        let logs = unit.wait_log("--connection-timeout is deprecated");
        for words in [
            "--enable-pprof has no effect",
            "--mode is deprecated",
            "flags=-",
        ] {
            assert!(logs.contains(words), "{words}");
        }
        unit.stop();
    }
}

#[test]
fn two_units_work_side_by_side_with_runtime_directories_of_their_own() {
    for layout in Layout::ALL {
        let node = Node::with_layout(layout);
        let kubelet = node.kubelet();
        let ids = ["a.test", "b.test"];
        let _drivers = ids.map(|id| {
            FakeDriver::start_in_new_directory(node.csi_socket(id), Behaviour::named(id))
        });
        let units = ids.map(|id| Unit::start(&hand_run(&node, id), None, node.root().join(id)));
        for id in ids {
            kubelet.wait_registered(id, SOON);
        }
        let dirs = units.each_ref().map(Unit::runtime_dir);
        assert_ne!(dirs[0], dirs[1]);
        let status = output(&["status", "--runtime-dir", &dirs[0].display().to_string()]);
        let said = String::from_utf8(status.stdout).unwrap();
        assert!(
            said.contains("a.test") && !said.contains("b.test"),
            "{said}"
        );
        // A second unit for the same driver reports which process has it.
        let second = output(&hand_run(&node, "a.test"));
        assert_eq!(second.status.code(), Some(1));
        let said = String::from_utf8(second.stderr).unwrap();
        assert!(said.contains("another instance runs"), "{said}");
        let mark = kubelet.mark();
        let [a, b] = units;
        a.stop();
        kubelet.wait_deregistered("a.test", SOON);
        assert_eq!(kubelet.counts_since(mark).deregistrations, 1);
        b.stop();
        for dir in dirs {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn without_a_runtime_directory_it_runs_without_state_and_says_so() {
    let node = Node::with_layout(Layout::OneDirectory);
    let kubelet = node.kubelet();
    let _driver =
        FakeDriver::start_in_new_directory(node.csi_socket("a"), Behaviour::named("a.test"));
    let line = hand_run(&node, "a");
    let unit = Unit::start(&line, None, node.root().join("log"));
    let runtime_dir = unit.runtime_dir();
    unit.stop();
    fs::remove_dir_all(&runtime_dir).unwrap();
    // As on a read-only file system: the directory cannot be created.
    fs::write(&runtime_dir, "").unwrap();
    let unit = Unit::start(&line, None, node.root().join("log"));
    unit.wait_log("running without state and control socket");
    kubelet.wait_registered("a.test", SOON);
    fs::remove_file(&runtime_dir).unwrap();
    assert!(unit.stop().success());
    kubelet.wait_deregistered("a.test", SOON);
}

#[test]
fn flags_win_over_a_file_that_is_named() {
    let node = Node::new();
    let kubelet = node.kubelet();
    node.write_default_config(
        &[],
        "[drivers.mine]\nendpoint = \"/wrong\"\n[log]\nlevel = \"error\"\n",
    );
    let driver =
        FakeDriver::start_in_new_directory(node.csi_socket("mine"), Behaviour::named("a.test"));
    let socket = driver.path().display();
    let line = [
        format!("--config={}", node.config_file().display()),
        format!("--csi-address={socket}"),
        format!("--kubelet-registration-path={socket}"),
        "--v=4".to_owned(),
    ];
    let unit = Unit::start(&line, Some(&node.runtime_dir()), node.root().join("log"));
    assert_eq!(kubelet.wait_registered("a.test", SOON), socket.to_string());
    unit.wait_log(" starts");
}

#[test]
fn the_probe_ends_at_once_and_the_version_is_printed() {
    let probe = output(&[
        "--kubelet-registration-path=/var/lib/kubelet/plugins/x/csi.sock",
        "--mode=kubelet-registration-probe",
    ]);
    assert_eq!(probe.status.code(), Some(0), "{probe:?}");
    for line in [&["--version"][..], &["-version=true", "--csi-address=/x"]] {
        let version = output(line);
        let said = String::from_utf8(version.stdout).unwrap();
        assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
    }
}

#[test]
fn a_flag_that_cannot_be_obeyed_is_a_usage_error() {
    for (line, words) in [
        (
            &["--csi-address=/c/csi.sock"][..],
            "--kubelet-registration-path is required",
        ),
        (
            &[
                "--kubelet-registration-path=/c/x",
                "--http-endpoint=:1",
                "--health-port=1",
            ],
            "only one of",
        ),
        (
            &["--kubelet-registration-path=/c/x", "--mode=other"],
            "other",
        ),
        (
            &["--kubelet-registration-path=/c/x", "--timeout=fast"],
            "fast",
        ),
        (
            &["--kubelet-registration-path=/c/x", "--enable-pprof=maybe"],
            "maybe",
        ),
        (
            &["--kubelet-registration-path"],
            "--kubelet-registration-path",
        ),
        (&["--csi-adress=/c"], "csi-address"),
        (&["status", "--csi-address=/c"], "--csi-address"),
    ] {
        let output = output(line);
        assert_eq!(output.status.code(), Some(64), "{line:?}: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(words), "{line:?}: {said}");
    }
    let bad = command(&["--kubelet-registration-path=relative/csi.sock"])
        .output()
        .unwrap();
    assert_eq!(bad.status.code(), Some(78), "{bad:?}");
    let said = String::from_utf8(bad.stderr).unwrap();
    assert!(said.contains("flag --kubelet-registration-path"), "{said}");
}
