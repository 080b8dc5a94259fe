//! Each way to find a kubelet and its root, in a fake /proc.

use std::os::unix::fs::{PermissionsExt, symlink};

use tempfile::TempDir;

use super::*;

/// The mounts of a process of the node.
const MOUNTS: &str = "22 27 0:21 / /proc rw - proc proc rw\n27 1 8:1 / / rw shared:1 - ext4 x rw\n";

/// A system with processes and directories of the test's choice.
pub(in crate::kubelet) struct System(TempDir);

impl System {
    pub(in crate::kubelet) fn new() -> System {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        fs::write(dir.path().join("proc/uptime"), "1").unwrap();
        fs::create_dir(dir.path().join("proc/self")).unwrap();
        fs::write(dir.path().join("proc/self/mountinfo"), MOUNTS).unwrap();
        System(dir)
    }

    pub(in crate::kubelet) fn process(self, pid: u32, arguments: &[&str]) -> System {
        self.process_of(0, pid, arguments)
    }

    /// A process of another user.
    pub(in crate::kubelet) fn process_of(self, user: u32, pid: u32, arguments: &[&str]) -> System {
        let directory = self.0.path().join(format!("proc/{pid}"));
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("cmdline"), arguments.join("\0") + "\0").unwrap();
        let status = format!("Name:\tx\nUid:\t0\t{user}\t0\t0\nGid:\t0\t0\t0\t0\n");
        fs::write(directory.join("status"), status).unwrap();
        fs::write(directory.join("mountinfo"), MOUNTS).unwrap();
        symlink("/bin/sh", directory.join("exe")).unwrap();
        self
    }

    /// Another file for a process in /proc, in the place of what it has.
    pub(in crate::kubelet) fn with(self, pid: u32, file: &str, text: &str) -> System {
        let path = self.0.path().join(format!("proc/{pid}/{file}"));
        fs::remove_file(&path).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    pub(in crate::kubelet) fn proc(&self) -> PathBuf {
        self.0.path().join("proc")
    }

    fn running(&self) -> Vec<KubeletProcess> {
        running(&self.proc())
    }

    /// The first kubelet names this root, or has it without a flag.
    #[track_caller]
    fn has(&self, root: &str, is_named: bool) {
        let first = self.running().remove(0);
        assert_eq!(first.root(), Path::new(root), "{first:?}");
        assert_eq!(first.named_root().is_some(), is_named, "{first:?}");
    }
}

#[test]
fn a_kubelet_that_runs_says_it_in_any_spelling() {
    for arguments in [
        &["/usr/bin/kubelet", "--root-dir=/data/kubelet", "--v=2"][..],
        &["kubelet", "--root-dir", "/data/kubelet"],
        &["kubelet", "-root-dir=/data/kubelet/"],
        &["/hyperkube", "kubelet", "--root-dir=/data/kubelet"],
        &["kubelet", "--root-dir=/a", "--root-dir=/data/kubelet"],
        &[
            "/usr/local/bin/k3s",
            "server",
            "--kubelet-arg=v=2",
            "--kubelet-arg=root-dir=/data/kubelet",
        ],
        &["k3s", "agent", "--kubelet-arg", "root-dir=/data/kubelet"],
        &[
            "/usr/bin/rke2",
            "agent",
            "--kubelet-arg=--root-dir=/data/kubelet",
        ],
        &[
            "k0s",
            "worker",
            "--kubelet-extra-args=--v=1 --root-dir=/data/kubelet",
        ],
        &["k0s", "worker", "--kubelet-root-dir=/data/kubelet"],
        &["k0s", "worker", "--data-dir=/data"],
    ] {
        let system = System::new()
            .process(1, &["/sbin/init"])
            .process(77, arguments);
        system.has("/data/kubelet", true);
    }
}

#[test]
fn a_program_that_says_nothing_has_its_usual_root() {
    for (arguments, root) in [
        (&["/usr/bin/kubelet", "--v=2"][..], "/var/lib/kubelet"),
        (&["/usr/local/bin/k3s server", ""], "/var/lib/kubelet"),
        (&["k3s", "agent"], "/var/lib/kubelet"),
        (&["rke2", "server"], "/var/lib/kubelet"),
        (
            &["/usr/local/bin/k0s", "worker", "--config=/x"],
            "/var/lib/k0s/kubelet",
        ),
        (
            &["/snap/microk8s/1/kubelite", "--kubelet-args-file=/nowhere"],
            "/var/snap/microk8s/common/var/lib/kubelet",
        ),
    ] {
        let system = System::new().process(7, arguments);
        system.has(root, false);
    }
}

#[test]
fn microk8s_has_the_flags_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubelet");
    fs::write(&file, "--v=2\n--root-dir=/data/kubelet\n").unwrap();
    let argument = format!("--kubelet-args-file={}", file.display());
    let system = System::new().process(9, &["/snap/microk8s/1/kubelite", &argument]);
    system.has("/data/kubelet", true);
    // The file that a stranger names is not read.
    let system = system.with(9, "mountinfo", "");
    system.has("/var/snap/microk8s/common/var/lib/kubelet", false);
}

#[test]
fn a_kubelet_goes_before_a_program_around_one_and_others_do_not_count() {
    let system = System::new()
        .process(3, &["k3s", "server"])
        .process(4, &["kubelet"])
        .process(5, &["k3s", "kubectl", "get", "--kubelet-arg=root-dir=/x"])
        .process(6, &["vi", "kubelet", "--root-dir=/x"])
        .process(8, &["kubelet", "--root-dir=relative"])
        .process(9, &[]);
    let pids: Vec<u32> = system.running().iter().map(|it| it.pid).collect();
    assert_eq!(pids, [4, 8, 3]);
}

#[test]
fn a_program_of_another_user_is_no_kubelet_whatever_it_is_called() {
    let system = System::new()
        .process_of(65534, 7, &["kubelet", "--root-dir=/home/mallory"])
        .process(9, &["/usr/bin/kubelet"]);
    system.has("/var/lib/kubelet", false);
    assert_eq!(system.running().len(), 1);
    fs::remove_file(system.0.path().join("proc/9/status")).unwrap();
    assert!(system.running().is_empty(), "its user is unknown");
}

#[test]
fn a_file_without_end_and_a_pipe_without_writer_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    for file in [Path::new("/dev/zero"), &pipe, dir.path()] {
        let file = file.display();
        let argument = format!("--kubelet-args-file={file}");
        let system = System::new().process(7, &["kubelite", &argument]);
        system.has("/var/snap/microk8s/common/var/lib/kubelet", false);
    }
}

#[test]
fn a_process_with_other_mounts_other_pids_or_an_open_program_is_not_believed() {
    let system = || System::new().process(7, &["kubelet", "--root-dir=/x"]);
    assert!(system().running()[0].is_believed);
    let status = |pids: &str| format!("Uid:\t0\t0\t0\t0\nNSpid:\t{pids}\n");
    let alone = system().with(7, "status", &status("7"));
    assert!(alone.running()[0].is_believed);
    for system in [
        system().with(7, "status", &status("7\t1")),
        system().with(7, "mountinfo", &MOUNTS.replace("27 1", "43 42")),
        // Its root is a directory that nothing is mounted on.
        system().with(7, "mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n"),
        system().with(7, "mountinfo", ""),
        system().with(7, "exe", "a program"),
    ] {
        let exe = system.0.path().join("proc/7/exe");
        if !exe.is_symlink() {
            fs::set_permissions(exe, fs::Permissions::from_mode(0o757)).unwrap();
        }
        assert!(!system.running()[0].is_believed);
        system.has("/x", true);
    }
}

#[test]
fn a_process_that_is_believed_comes_first() {
    let system = System::new()
        .process(7, &["kubelet", "--root-dir=/x"])
        .process(8, &["k3s", "agent"])
        .with(7, "mountinfo", &MOUNTS.replace("27 1", "43 42"));
    let pids: Vec<u32> = system.running().iter().map(|it| it.pid).collect();
    assert_eq!(pids, [8, 7]);
}
