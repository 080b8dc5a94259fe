//! Nodes on which no pod sees the volumes that a driver mounts.
//!
//! The processes are real; a proc file system of the test shows them with other mounts. tests/systemd has real
//! services with real mount namespaces.

use std::fs;
use std::os::unix::fs::symlink;

use bed::scene::NAME;
use bed::{FakeDriver, KubeletProcess, Release, Scene, Settings, Timing, skipped};
use serde_json::Value;

use super::{doctor, findings, first_is, fixed_by, only, proc};
use crate::setup;

const CHECK: &str = "mount propagation";
const HOST: &str = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n";
/// The mounts of a service with PrivateTmp=yes: systemd makes them slaves, then shared among themselves.
const SANDBOX: &str = "900 800 8:1 / / rw shared:500 master:1 - ext4 /dev/sda1 rw\n";
const SERVICE: &str = "0::/system.slice/nfs.service\n";
const POD: &str = "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-9f.scope\n";
const DOCKER: &str = "0::/system.slice/docker-9f.scope\n";

/// A registered driver in this process, and a kubelet in another process.
struct Stage {
    scene: Scene,
    kubelet: KubeletProcess,
    _driver: FakeDriver,
}

impl Stage {
    fn set() -> Stage {
        let scene = setup().started();
        let settings = Settings::new(scene.node.kubelet_root(), Release::V1_36);
        let kubelet = KubeletProcess::start(settings.with_timing(Timing::faster(10)));
        let driver = scene.node.driver(NAME);
        scene.phase(NAME, "registered");
        Stage {
            scene,
            kubelet,
            _driver: driver,
        }
    }

    /// The proc file system shows the driver with these mounts and in this control group.
    fn driver(&self, mounts: &str, cgroup: &str) {
        self.process(std::process::id(), "nfsplugin", mounts, cgroup);
    }

    fn kubelet(&self, mounts: &str, cgroup: &str) {
        self.process(self.kubelet.pid().unwrap(), "kubelet", mounts, cgroup);
    }

    fn process(&self, pid: u32, name: &str, mounts: &str, cgroup: &str) {
        let process = proc(&self.scene).join(pid.to_string());
        fs::create_dir_all(&process).unwrap();
        for (file, text) in [("mountinfo", mounts), ("cgroup", cgroup), ("comm", name)] {
            fs::write(process.join(file), text).unwrap();
        }
    }

    /// The finding of a volume's mount, with its level.
    fn finding(&self) -> (String, String, String) {
        let finding = only(&findings(&doctor(&self.scene)), CHECK);
        let text = |key: &str| finding[key].as_str().unwrap().to_owned();
        (text("level"), text("found"), text("fix"))
    }

    fn is_well(&self) {
        let output = doctor(&self.scene);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert_eq!(findings(&output), [] as [Value; 0]);
    }

    /// A container with the kubelet's directory as a volume, with these tags.
    fn container(&self, tags: &str) -> String {
        let root = self.scene.node.kubelet_root();
        let root = root.display();
        format!(
            "700 600 0:50 / / rw - overlay overlay rw\n701 700 8:1 {root} {root} rw {tags}- ext4 /dev/sda1 rw\n"
        )
    }
}

#[test]
fn a_driver_with_the_mounts_of_the_kubelet_or_shared_with_them_is_no_finding() {
    let stage = Stage::set();
    stage.kubelet(HOST, "");
    for mounts in [
        HOST,
        &HOST.replace("22 1", "40 39"),
        &stage.container("shared:1 "),
    ] {
        stage.driver(mounts, SERVICE);
        stage.is_well();
    }
    // The kubelet has its own namespace, and receives the mounts of the node.
    stage.driver(HOST, SERVICE);
    for mounts in [SANDBOX, &stage.container("master:1 ")] {
        stage.kubelet(mounts, DOCKER);
        stage.is_well();
    }
}

#[test]
fn a_driver_in_a_sandbox_is_a_fault_that_says_where_the_data_goes() {
    let stage = Stage::set();
    stage.kubelet(HOST, "");
    stage.driver(SANDBOX, SERVICE);
    let output = doctor(&stage.scene);
    let effect = "volumes are mounted where no pod sees them, and data is written to the node's own disk: the driver, pid ";
    first_is(&output, CHECK, effect);
    let pods = stage.scene.node.kubelet_root().join("pods");
    let pods = format!(
        "the mounts that the driver makes below {}, because for the driver the mount / is shared, but not",
        pods.display()
    );
    first_is(&output, CHECK, &pods);
    first_is(&output, CHECK, "(nfsplugin, nfs.service)");
    first_is(&output, CHECK, "a driver that mounts through nsenter");
    fixed_by(&output, "systemctl cat nfs.service");
    fixed_by(&output, "systemctl restart nfs.service");
    fixed_by(&output, "delete the pods that use its volumes");
    assert_eq!(only(&findings(&output), CHECK)["driver"], NAME);
    // In one namespace the tables are not even read.
    for pid in [std::process::id(), stage.kubelet.pid().unwrap()] {
        let process = proc(&stage.scene).join(pid.to_string());
        fs::create_dir(process.join("ns")).unwrap();
        symlink("mnt:[4026531841]", process.join("ns/mnt")).unwrap();
    }
    stage.is_well();
}

#[test]
fn a_driver_in_a_container_without_rshared_is_a_fault_with_the_volume_to_write() {
    let stage = Stage::set();
    stage.kubelet(HOST, "");
    let root = stage.scene.node.kubelet_root();
    let root = root.display();
    let slave = format!("the mount {root} is a slave");
    let private = format!("the mount {root} is private");
    let other = "another directory is at that path (overlay overlay, mounted at /)";
    let none = "700 600 0:50 / / rw - overlay overlay rw\n".to_owned();
    let volume = format!("-v {root}:{root}:rshared");
    let bidirectional = "mountPropagation: Bidirectional";
    for (mounts, cgroup, words, fix) in [
        (stage.container("master:1 "), DOCKER, &*slave, &*volume),
        (stage.container(""), POD, &private, bidirectional),
        (none, POD, other, bidirectional),
    ] {
        stage.driver(&mounts, cgroup);
        let output = doctor(&stage.scene);
        first_is(&output, CHECK, words);
        fixed_by(&output, fix);
    }
}

#[test]
fn a_container_with_the_pods_directory_alone_is_right_for_a_driver_that_stages_nothing() {
    let stage = Stage::set();
    stage.kubelet(HOST, "");
    let pods = stage.scene.node.kubelet_root().join("pods");
    let pods = pods.display();
    let root = "700 600 0:50 / / rw - overlay overlay rw\n";
    let alone = format!("{root}701 700 8:1 {pods} {pods} rw shared:1 - ext4 /dev/sda1 rw\n");
    stage.driver(&alone, POD);
    stage.is_well();
    let plugins = stage.scene.node.kubelet_root().join("plugins");
    let plugins = plugins.display();
    let staged = format!("702 700 8:1 {plugins} {plugins} rw master:1 - ext4 /dev/sda1 rw\n");
    stage.driver(&format!("{alone}{staged}"), POD);
    let (level, found, _) = stage.finding();
    assert_eq!(level, "warning", "{found}");
    assert!(found.contains("raw block volumes"), "{found}");
}

#[test]
fn a_kubelet_in_a_container_without_rslave_is_named_as_the_cause() {
    let stage = Stage::set();
    stage.driver(HOST, SERVICE);
    stage.kubelet(&stage.container(""), DOCKER);
    let first = proc(&stage.scene).join("1/ns");
    fs::create_dir_all(&first).unwrap();
    let driver = proc(&stage.scene).join(format!("{}/ns", std::process::id()));
    fs::create_dir(&driver).unwrap();
    for namespaces in [first, driver] {
        symlink("mnt:[4026531841]", namespaces.join("mnt")).unwrap();
    }
    let output = doctor(&stage.scene);
    first_is(&output, CHECK, "no pod sees them");
    fixed_by(&output, "run the container of the kubelet with: -v ");
}

#[test]
fn a_process_whose_mounts_cannot_be_read_is_a_warning_and_no_fault() {
    let stage = Stage::set();
    stage.kubelet(HOST, "");
    let (level, found, fix) = stage.finding();
    assert_eq!(level, "warning", "{found}");
    let driver = format!("cannot read the mounts of pid {}", std::process::id());
    assert!(found.contains("did not check whether pods see"), "{found}");
    assert!(found.contains(&driver), "{found}");
    assert!(fix.starts_with("run the doctor as root"), "{fix}");
    // A table without an end, as a hostile proc file system might have it, ends.
    stage.driver(HOST, SERVICE);
    let table = proc(&stage.scene).join(format!("{}/mountinfo", std::process::id()));
    fs::remove_file(&table).unwrap();
    symlink("/dev/zero", table).unwrap();
    assert_eq!(stage.finding().0, "warning");
}

/// A mount namespace between those of the driver and of the kubelet passes the mounts on.
#[test]
fn a_kubelet_that_receives_mounts_through_a_third_namespace_is_a_warning_and_no_fault() {
    let stage = Stage::set();
    stage.driver(HOST, SERVICE);
    stage.kubelet(&stage.container("master:2 "), DOCKER);
    let (level, found, fix) = stage.finding();
    assert_eq!(level, "warning", "{found}");
    assert!(found.contains("did not check whether pods see"), "{found}");
    assert!(
        found.contains("receives mounts from peer group 2"),
        "{found}"
    );
    assert!(fix.contains("/proc/PID/mountinfo of the kubelet"), "{fix}");
    // The kernel names a group in the kubelet's own namespace that the mounts come from.
    stage.kubelet(&stage.container("master:2 propagate_from:1 "), DOCKER);
    stage.is_well();
}

/// The real mounts of real processes: a kubelet in a container without propagation.
#[test]
fn real_namespaces_are_compared() {
    let stage = Stage::set();
    let compared = |scene: &Scene| scene.registrar.run_cli(["doctor", "--json"]);
    let well = findings(&compared(&stage.scene));
    assert!(
        well.iter().all(|finding| finding["check"] != CHECK),
        "{well:#?}"
    );
    let Some(mut mounts) = bed::Mounts::private() else {
        return skipped("root, to make a mount namespace");
    };
    // The next kubelet is in the private namespace of this thread, below another directory.
    let Stage {
        scene,
        mut kubelet,
        _driver,
    } = stage;
    let pods = scene.node.kubelet_root().join("pods");
    fs::create_dir_all(&pods).unwrap();
    mounts.tmpfs(&pods, 100, 1 << 20);
    kubelet.restart();
    scene.phase(NAME, "registered");
    let output = compared(&scene);
    first_is(&output, CHECK, "another directory is at that path");
    drop(mounts);
}
