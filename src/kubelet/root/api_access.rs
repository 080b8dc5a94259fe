//! How the kubelet of this node reaches the API server: its kubeconfig, and the name of its Node.
//!
//! As for the root directory, only a process of the node itself, or the main process of a kubelet's unit, is
//! believed: a pod that calls itself a kubelet could name any file of the node as its kubeconfig.

use std::path::{Path, PathBuf};

use thiserror::Error;

use super::claim::{absolute, arguments_file, command_line, passed_on, path_flag, program};
use super::{Host, below, running};
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
    pub(crate) fn find(host: &Host, called: Option<u32>) -> Result<ApiAccess, Dispute> {
        let all = running(host).into_iter();
        let believed: Vec<u32> = all
            .filter(|running| running.is_believed)
            .map(|running| running.pid)
            .collect();
        let called = called.filter(|pid| believed.contains(pid));
        let pids = called.map_or(believed, |pid| vec![pid]);
        let found = pids.iter().filter_map(|pid| ApiAccess::of(host, *pid));
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
    fn of(host: &Host, pid: u32) -> Option<ApiAccess> {
        let arguments = command_line(&host.proc.join(pid.to_string()))?;
        let (program, arguments) = program(&arguments)?;
        // A file that an earlier cluster has left at another well-known place is not that of this program.
        let in_data_dir = |own: &str, file: &str| match path_flag(arguments, "data-dir") {
            Some(directory) => Some(directory.join(file)),
            None => exists(host, &Path::new(own).join(file)),
        };
        let passed = |name: &str, key: &str| passed_on(arguments, name, key).map(str::to_owned);
        let own = |key: &str| flag(arguments, key).map(str::to_owned);
        let (kubeconfig, node_name) = match program {
            "kubelet" => (path_flag(arguments, "kubeconfig"), own("hostname-override")),
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
                let flags = arguments_file(arguments).unwrap_or_default();
                // MicroK8s' own value begins with a variable of the shell.
                let kubeconfig = flag(&flags, "kubeconfig").and_then(absolute);
                let kubeconfig = kubeconfig.or_else(|| exists(host, Path::new(MICROK8S)));
                (
                    kubeconfig,
                    flag(&flags, "hostname-override").map(str::to_owned),
                )
            }
            _ => (None, None),
        };
        Some(ApiAccess {
            kubeconfig,
            node_name: node_name.filter(|name| !name.is_empty()),
        })
    }
}

/// The kubeconfig that exists at a well-known place, the most common first.
pub(crate) fn well_known(host: &Host) -> Option<PathBuf> {
    let mut places = WELL_KNOWN.iter().map(Path::new);
    places.find_map(|place| exists(host, place))
}

/// The path, if a file is there. Well-known paths are below the directory of /proc, which is / except in tests.
fn exists(host: &Host, path: &Path) -> Option<PathBuf> {
    let place = below(directory::of(host.proc), path.to_str()?);
    place.symlink_metadata().ok().map(|_| path.to_owned())
}
