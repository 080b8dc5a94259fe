//! How the kubelet of this node reaches the API server: its kubeconfig, and the name of its Node.
//!
//! Only a process of root on the node itself is believed: a pod that calls itself a kubelet could name any file of
//! the node as its kubeconfig.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::process::{KUBELET, KubeletProcess, absolute, path_flag, running};
use crate::disk::directory;
use crate::os::go_flags::flag;

/// Where distributions keep the kubelet's kubeconfig: kubeadm, k3s, RKE2, k0s and MicroK8s.
pub(crate) const WELL_KNOWN: [&str; 5] = [
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
    "/var/lib/k0s/kubelet.conf",
    MICROK8S,
];

const MICROK8S: &str = "/var/snap/microk8s/current/credentials/kubelet.config";

/// What the command line of a running kubelet says of its way to the API server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ApiAccess {
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The name of its Node, if a flag sets it.
    pub(crate) node_name: Option<String>,
}

/// Two kubelets that are believed differ.
#[derive(Debug, Error)]
#[error("two kubelets run on this node, and use {} and {}", .0.display(), .1.display())]
pub(crate) struct Dispute(PathBuf, PathBuf);

impl ApiAccess {
    /// As the kubelet that last called has it, if it is believed; or else as all kubelets have it that are.
    pub(crate) fn find(proc: &Path, called: Option<u32>) -> Result<ApiAccess, Dispute> {
        let all = running(proc).into_iter();
        let mut believed: Vec<KubeletProcess> = all.filter(|kubelet| kubelet.is_believed).collect();
        if let Some(one) = believed.iter().find(|kubelet| Some(kubelet.pid) == called) {
            believed = vec![one.clone()];
        }
        let found = believed.iter().map(|kubelet| ApiAccess::of(proc, kubelet));
        let mut found: Vec<ApiAccess> = found.collect();
        // A kubelet that names a kubeconfig says more than one that does not.
        found.sort_by_key(|access| access.kubeconfig.is_none());
        let mut named = found.iter().filter_map(|access| access.kubeconfig.clone());
        if let Some(first) = named.next()
            && let Some(other) = named.find(|other| *other != first)
        {
            return Err(Dispute(first, other));
        }
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// Only of a process that is believed: its command line may name a file that is read.
    fn of(proc: &Path, kubelet: &KubeletProcess) -> ApiAccess {
        let KubeletProcess {
            program, arguments, ..
        } = kubelet;
        // A file that an earlier cluster has left at another well-known place is not that of this program.
        let in_data_dir = |own: &str, file: &str| match path_flag(arguments, "data-dir") {
            Some(directory) => Some(directory.join(file)),
            None => exists(proc, &Path::new(own).join(file)),
        };
        let passed = |name: &str, key: &str| kubelet.passed_on(name, key).map(str::to_owned);
        let own = |key: &str| flag(arguments, key).map(str::to_owned);
        let (kubeconfig, node_name) = match program.as_str() {
            KUBELET => (path_flag(arguments, "kubeconfig"), own("hostname-override")),
            "k3s" | "rke2" => (
                in_data_dir(
                    &format!("/var/lib/rancher/{program}"),
                    "agent/kubelet.kubeconfig",
                ),
                own("node-name").or_else(|| passed("kubelet-arg", "hostname-override")),
            ),
            "k0s" => (
                in_data_dir("/var/lib/k0s", "kubelet.conf"),
                passed("kubelet-extra-args", "hostname-override"),
            ),
            "kubelite" => {
                let flags = kubelet.arguments_file().unwrap_or_default();
                // MicroK8s' own value begins with a variable of the shell.
                let kubeconfig = flag(&flags, "kubeconfig").and_then(absolute);
                let kubeconfig = kubeconfig.or_else(|| exists(proc, Path::new(MICROK8S)));
                (
                    kubeconfig,
                    flag(&flags, "hostname-override").map(str::to_owned),
                )
            }
            _ => (None, None),
        };
        ApiAccess {
            kubeconfig,
            node_name: node_name.filter(|name| !name.is_empty()),
        }
    }
}

/// The kubeconfig that exists at a well-known place, the most common first.
pub(crate) fn well_known(proc: &Path) -> Option<PathBuf> {
    let mut places = WELL_KNOWN.iter().map(Path::new);
    places.find_map(|place| exists(proc, place))
}

/// The path, if a file is there. Well-known paths are below the directory of /proc, which is / except in tests.
fn exists(proc: &Path, path: &Path) -> Option<PathBuf> {
    let place = directory::of(proc).join(path.strip_prefix("/").ok()?);
    place.symlink_metadata().ok().map(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::process::tests::System;
    use super::*;

    impl System {
        fn directory(self, path: &str) -> System {
            let system = self.proc().join("..");
            fs::create_dir_all(system.join(path.trim_start_matches('/'))).unwrap();
            self
        }

        fn access(&self, called: Option<u32>) -> Result<ApiAccess, Dispute> {
            ApiAccess::find(&self.proc(), called)
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
        assert_eq!(well_known(&system.proc()), None);
        let system = system
            .directory("/var/lib/k0s/kubelet.conf")
            .directory("/etc/kubernetes/kubelet.conf");
        let found = well_known(&system.proc());
        assert_eq!(found, Some("/etc/kubernetes/kubelet.conf".into()));
    }
}
