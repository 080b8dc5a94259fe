//! Each way to find a kubelet's root, in a fake /proc.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;

use tempfile::TempDir;

use super::*;

/// The mounts of a process of the node.
const MOUNTS: &str = "22 27 0:21 / /proc rw - proc proc rw\n27 1 8:1 / / rw shared:1 - ext4 x rw\n";

/// A system with processes and directories of the test's choice.
struct System(TempDir);

impl System {
    fn new() -> System {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("proc")).unwrap();
        fs::write(dir.path().join("proc/uptime"), "1").unwrap();
        fs::create_dir(dir.path().join("proc/self")).unwrap();
        fs::write(dir.path().join("proc/self/mountinfo"), MOUNTS).unwrap();
        System(dir)
    }

    fn process(self, pid: u32, arguments: &[&str]) -> System {
        self.process_of(0, pid, arguments)
    }

    /// A process of another user.
    fn process_of(self, user: u32, pid: u32, arguments: &[&str]) -> System {
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
    fn with(self, pid: u32, file: &str, text: &str) -> System {
        let path = self.0.path().join(format!("proc/{pid}/{file}"));
        fs::remove_file(&path).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    fn running(&self) -> Vec<Running> {
        running(&Host::new(&self.0.path().join("proc"), Vec::new))
    }

    fn directory(self, path: &str) -> System {
        fs::create_dir_all(self.0.path().join(path.trim_start_matches('/'))).unwrap();
        self
    }

    /// A file as the process sees it.
    fn file(self, pid: u32, path: &str, text: &str) -> System {
        let inside = self.0.path().join(format!("proc/{pid}/root{path}"));
        fs::create_dir_all(inside.parent().unwrap()).unwrap();
        fs::write(inside, text).unwrap();
        self
    }

    fn find(&self) -> KubeletRoot {
        let proc = self.0.path().join("proc");
        find(&Host::new(&proc, Vec::new), None, None)
    }

    #[track_caller]
    fn has(&self, path: &str, why: &str) {
        let found = self.find();
        assert_eq!(found.path, Path::new(path), "{found:?}");
        assert!(found.why.to_string().contains(why), "{}", found.why);
    }
}

#[test]
fn each_well_known_directory_is_found_by_what_a_kubelet_makes_in_it() {
    for root in WELL_KNOWN {
        for mark in MARKS {
            let system = System::new().directory(&format!("{root}/{mark}"));
            system.has(root, mark);
        }
        // Drivers make this one.
        let system = System::new().directory(&format!("{root}/plugins"));
        assert_eq!(system.find().why, RootSource::Default);
    }
}

#[test]
fn the_most_common_of_several_directories_is_taken() {
    let system = System::new()
        .directory("/var/lib/rancher/k3s/agent/kubelet/plugins_registry")
        .directory("/var/lib/k0s/kubelet/plugins_registry");
    system.has("/var/lib/k0s/kubelet", "no kubelet runs");
    let system = system.directory("/var/lib/kubelet/pod-resources");
    system.has("/var/lib/kubelet", "pod-resources");
}

#[test]
fn without_anything_it_is_the_usual_one() {
    System::new().has("/var/lib/kubelet", "the default");
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
            .process(77, arguments)
            .directory("/var/lib/k0s/kubelet/plugins_registry");
        system.has("/data/kubelet", "(pid 77) names it on its command line");
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
        let system = System::new()
            .process(7, arguments)
            .directory("/opt/rke/var/lib/kubelet/plugins_registry");
        system.has(root, "(pid 7) names no other");
    }
}

#[test]
fn microk8s_has_the_flags_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kubelet");
    fs::write(&file, "--v=2\n--root-dir=/data/kubelet\n").unwrap();
    let argument = format!("--kubelet-args-file={}", file.display());
    let system = System::new().process(9, &["/snap/microk8s/1/kubelite", &argument]);
    system.has("/data/kubelet", "kubelite (pid 9)");
}

#[test]
fn the_kubelets_configuration_file_may_name_it() {
    for text in [
        "kind: KubeletConfiguration\nrootDir: /data/kubelet\n",
        "rootDir: \"/data/kubelet\"\n",
        "{\n  \"kind\": \"KubeletConfiguration\",\n  \"rootDir\": \"/data/kubelet\"\n}\n",
    ] {
        let system = System::new()
            .process(5, &["kubelet", "--config=/etc/kubelet.yaml"])
            .file(5, "/etc/kubelet.yaml", text);
        system.has("/data/kubelet", "/etc/kubelet.yaml");
    }
    for text in [
        "kind: x\n",
        "other:\n  rootDir: /data/kubelet\n",
        "rootDir: relative\n",
    ] {
        let system = System::new()
            .process(5, &["kubelet", "--config=/etc/kubelet.yaml"])
            .file(5, "/etc/kubelet.yaml", text);
        system.has("/var/lib/kubelet", "kubelet (pid 5) names no other");
    }
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
    assert_eq!(system.find().why, RootSource::Kubelet { pid: 4 });
}

#[test]
fn a_program_of_another_user_is_no_kubelet_whatever_it_is_called() {
    let system = System::new()
        .process_of(65534, 7, &["kubelet", "--root-dir=/home/mallory"])
        .process(9, &["/usr/bin/kubelet"]);
    assert_eq!(system.find().path, Path::new("/var/lib/kubelet"));
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
        let system = System::new()
            .process(7, &["kubelite", &format!("--kubelet-args-file={file}")])
            .process(8, &["kubelet", &format!("--config={file}")]);
        assert_eq!(system.running().len(), 2, "{file}");
    }
}

#[test]
fn a_process_with_other_mounts_other_pids_or_an_open_program_is_not_believed() {
    let line = &["kubelet", "--root-dir=/x", "--config=/etc/kubelet.yaml"][..];
    let system = || System::new().process(7, line);
    system().has("/x", "kubelet (pid 7)");
    let status = |pids: &str| format!("Uid:\t0\t0\t0\t0\nNSpid:\t{pids}\n");
    system().with(7, "status", &status("7")).has("/x", "pid 7");
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
        assert_eq!(system.find().why, RootSource::Default);
        let found = system.running();
        assert!(!found[0].is_believed);
        assert_eq!(found[0].root.path, Path::new("/x"));
    }
}

#[test]
fn the_main_process_of_a_kubelets_unit_is_believed_whatever_its_mounts_are() {
    let system = System::new()
        .process(7, &["kubelet", "--root-dir=/x"])
        .process(8, &["kubelet", "--root-dir=/y"])
        .with(7, "mountinfo", &MOUNTS.replace("27 1", "43 42"))
        .with(8, "mountinfo", &MOUNTS.replace("27 1", "53 52"));
    let proc = system.0.path().join("proc");
    let found = running(&Host::new(&proc, || vec![8]));
    let believed: Vec<bool> = found.iter().map(|running| running.is_believed).collect();
    assert_eq!(believed, [true, false]);
    assert_eq!(found[0].root.path, Path::new("/y"));
}

#[test]
fn files_that_a_stranger_names_are_not_read() {
    let system = System::new()
        .process(5, &["kubelet", "--config=/etc/kubelet.yaml"])
        .file(5, "/etc/kubelet.yaml", "rootDir: /data/kubelet\n")
        .with(5, "mountinfo", "");
    assert_eq!(system.running()[0].root.path, Path::new(DEFAULT));
}

#[test]
fn two_that_disagree_are_not_followed_and_what_was_known_stays() {
    let system = System::new()
        .process(7, &["kubelet", "--root-dir=/a"])
        .process(8, &["kubelet", "--root-dir=/b"]);
    system.has(DEFAULT, "/a (kubelet (pid 7)");
    system.has(DEFAULT, "and /b (kubelet (pid 8)");
    let known = |why: RootSource| {
        let path = PathBuf::from("/known");
        Some(KubeletRoot { path, why })
    };
    let proc = system.0.path().join("proc");
    let find = |called, known| find(&Host::new(&proc, Vec::new), called, known);
    let found = find(known(RootSource::Before), None);
    assert_eq!(found.path, Path::new("/known"));
    assert!(matches!(found.why, RootSource::Disputed(_)));
    let found = find(None, known(RootSource::Default));
    assert_eq!(found.path, Path::new("/known"));
    // A kubelet that has reported a registration needs no second source.
    let called = known(RootSource::Called { pid: 9 });
    assert_eq!(find(called.clone(), None), called.unwrap());
    // A statement is not compared with an assumption.
    let system = System::new()
        .process(7, &["kubelet", "--root-dir=/a"])
        .process(8, &["kubelet"])
        .process(9, &["k0s", "worker"]);
    system.has("/a", "pid 7");
}

#[test]
fn a_listener_in_a_well_known_root_is_believed_and_may_disagree() {
    let listener = std::process::id();
    let system = System::new()
        .directory("/var/lib/k0s/kubelet/pod-resources")
        .process(listener, &["the test"]);
    let socket = "var/lib/k0s/kubelet/pod-resources/kubelet.sock";
    let _listener = UnixListener::bind(system.0.path().join(socket)).unwrap();
    // A pod may have the directory for a volume.
    let other_root = "99 98 0:50 / / rw - overlay overlay rw\n";
    let system = system.with(listener, "mountinfo", other_root);
    assert!(!system.find().why.to_string().contains("listens"));
    let system = system.with(listener, "mountinfo", MOUNTS);
    system.has("/var/lib/k0s/kubelet", "listens on pod-resources");
    let system = system.process(7, &["kubelet"]);
    system.has("/var/lib/k0s/kubelet", "listens on pod-resources");
    let system = system.process(8, &["kubelet", "--root-dir=/a"]);
    // A kubelet has used it, and "auto" follows none of the two.
    system.has("/var/lib/k0s/kubelet", "disagree");
}

#[cfg(feature = "cluster")]
mod api_access {
    use super::super::api_access::{ApiAccess, Dispute, well_known};
    use super::*;

    impl System {
        fn access(&self, called: Option<u32>) -> Result<ApiAccess, Dispute> {
            let proc = self.0.path().join("proc");
            ApiAccess::find(&Host::new(&proc, Vec::new), called)
        }
    }

    fn access(kubeconfig: Option<&str>, node_name: Option<&str>) -> ApiAccess {
        ApiAccess {
            kubeconfig: kubeconfig.map(PathBuf::from),
            node_name: node_name.map(str::to_owned),
        }
    }

    #[test]
    fn a_kubelets_flags_say_where_its_kubeconfig_is_and_how_its_node_is_called() {
        for (arguments, kubeconfig, node_name) in [
            (
                &[
                    "/usr/bin/kubelet",
                    "--kubeconfig=/k",
                    "--hostname-override",
                    "n",
                ][..],
                Some("/k"),
                Some("n"),
            ),
            (&["kubelet", "--kubeconfig", "relative"], None, None),
            (&["kubelet"], None, None),
            (
                &["k3s", "agent", "--data-dir=/d", "--node-name=n"],
                Some("/d/agent/kubelet.kubeconfig"),
                Some("n"),
            ),
            (
                &["rke2", "server", "--kubelet-arg=hostname-override=n"],
                None,
                Some("n"),
            ),
            (
                &[
                    "k0s",
                    "worker",
                    "--data-dir=/d",
                    "--kubelet-extra-args=--hostname-override=n",
                ],
                Some("/d/kubelet.conf"),
                Some("n"),
            ),
        ] {
            let found = System::new().process(7, arguments).access(None).unwrap();
            assert_eq!(found, access(kubeconfig, node_name), "{arguments:?}");
        }
    }

    #[test]
    fn a_process_that_is_not_believed_names_no_kubeconfig() {
        let own_mounts = "99 1 8:1 / / rw - overlay x rw\n";
        let pod = System::new()
            .process(7, &["kubelet", "--kubeconfig=/volume/of/a/pod"])
            .with(7, "mountinfo", own_mounts);
        // Also not if it has called: any root process that reaches reg.sock may call.
        for called in [None, Some(7)] {
            assert_eq!(pod.access(called).unwrap(), access(None, None));
        }
        let other_user = System::new().process_of(1000, 7, &["kubelet", "--kubeconfig=/k"]);
        assert_eq!(other_user.access(Some(7)).unwrap(), access(None, None));
    }

    #[test]
    fn of_two_kubelets_the_one_that_called_counts() {
        let two = System::new()
            .process(7, &["kubelet", "--kubeconfig=/a"])
            .process(8, &["kubelet", "--kubeconfig=/b"]);
        assert_eq!(two.access(Some(8)).unwrap(), access(Some("/b"), None));
        let dispute = two.access(None).unwrap_err().to_string();
        assert!(
            dispute.contains("/a") && dispute.contains("/b"),
            "{dispute}"
        );
        let silent = System::new()
            .process(6, &["kubelet"])
            .process(7, &["kubelet", "--kubeconfig=/a"]);
        assert_eq!(silent.access(None).unwrap(), access(Some("/a"), None));
        let three = silent.process(8, &["kubelet", "--kubeconfig=/b"]);
        assert!(three.access(None).is_err());
        let same = System::new()
            .process(7, &["kubelet", "--kubeconfig=/a"])
            .process(8, &["kubelet", "--kubeconfig=/a"]);
        assert_eq!(same.access(None).unwrap(), access(Some("/a"), None));
    }

    #[test]
    fn a_distribution_that_runs_has_its_own_kubeconfig_before_one_that_an_earlier_cluster_left() {
        let system = System::new()
            .directory("/etc/kubernetes/kubelet.conf")
            .directory("/var/lib/rancher/k3s/agent/kubelet.kubeconfig")
            .process(7, &["/usr/local/bin/k3s server"]);
        let own = "/var/lib/rancher/k3s/agent/kubelet.kubeconfig";
        assert_eq!(system.access(None).unwrap(), access(Some(own), None));
        let own = "/var/snap/microk8s/current/credentials/kubelet.config";
        let system = System::new()
            .directory("/etc/kubernetes/kubelet.conf")
            .directory(own)
            .process(7, &["/snap/microk8s/1/kubelite", "--kubelet-args-file=/x"]);
        assert_eq!(system.access(None).unwrap(), access(Some(own), None));
        let elsewhere = System::new().process(7, &["k0s", "worker"]);
        assert_eq!(elsewhere.access(None).unwrap(), access(None, None));
    }

    #[test]
    fn a_well_known_kubeconfig_is_found_the_most_common_first() {
        let system = System::new();
        let proc = system.0.path().join("proc");
        let found = || well_known(&Host::new(&proc, Vec::new));
        assert_eq!(found(), None);
        let system = System(tempfile::tempdir().unwrap());
        fs::create_dir(system.0.path().join("proc")).unwrap();
        let system = system
            .directory("/var/lib/k0s/kubelet.conf")
            .directory("/etc/kubernetes/kubelet.conf");
        let proc = system.0.path().join("proc");
        let found = well_known(&Host::new(&proc, Vec::new));
        assert_eq!(found, Some("/etc/kubernetes/kubelet.conf".into()));
    }
}
