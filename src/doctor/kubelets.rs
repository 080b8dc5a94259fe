//! The kubelets that run, with the root directory that each of them really has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Finding, Inputs};
use crate::kubelet::root::{KubeletRoot, Running, agreed, is_same, running};
use crate::kubelet::start_sockets::StartSockets;
use crate::systemd::main_pids_of_kubelets;

/// What was found in /proc.
pub(super) struct KubeletFindings {
    proc: PathBuf,
    /// Those that are believed first.
    found: Vec<Running>,
    /// Who told the daemon how a registration went is a kubelet that sees our link, whatever it is
    /// called.
    spoke: Option<u32>,
    root: PathBuf,
    /// A kubelet listens on the pod-resources socket below our root.
    shows: bool,
    /// Its process, which may be called otherwise, such as k3s.
    shown: Option<u32>,
}

impl KubeletFindings {
    pub(super) fn find(patient: &Inputs) -> KubeletFindings {
        let root = patient.settings.kubelet_root().to_owned();
        let status = patient.daemon.as_ref().ok();
        let signs = StartSockets::of(&root);
        KubeletFindings {
            proc: patient.proc.clone(),
            found: running(&patient.proc, main_pids_of_kubelets),
            spoke: status.and_then(|status| status.kubelet.as_ref()?.pid),
            shows: signs.show_a_kubelet(),
            shown: signs.listener().and_then(|listener| listener.pid),
            root,
        }
    }

    /// RootSource the kubelet's directory is not there.
    pub(super) fn why_no_directory(&self, directory: &Path) -> Finding {
        if let Some(elsewhere) = self.elsewhere() {
            return elsewhere;
        }
        let saw = format!(
            "{} is missing, and the kubelet makes it when it starts",
            directory.display()
        );
        if self.found.is_empty() && !self.shows {
            return Finding::fault(
                "kubelet running",
                format!("no kubelet runs: {saw}"),
                "systemctl start kubelet",
            );
        }
        Finding::fault("kubelet directory", saw, "systemctl restart kubelet")
    }

    /// What keeps the kubelet from a link that is there.
    pub(super) fn why_not_seen(&self, id: &str, target: &Path, endpoint: &Path) -> Finding {
        if self.spoke.is_none() {
            if let Some(elsewhere) = self.elsewhere() {
                return elsewhere;
            }
            if self.found.is_empty() && !self.shows {
                let saw = format!(
                    "no kubelet runs: no process of that name, and nobody listens on {}",
                    self.root.join("pod-resources/kubelet.sock").display()
                );
                return Finding::fault("kubelet running", saw, "systemctl start kubelet");
            }
        }
        self.blind(target, endpoint).unwrap_or_else(|| {
            Finding::fault(
                "kubelet registering",
                "the link is right and a kubelet runs, but it has not registered the driver",
                format!("see why: journalctl -u kubelet | grep -i plugin; then: node-storage-driver-registrar reannounce {id}"),
            )
        })
    }

    /// KubeletFindings run, but none of them with our root.
    fn elsewhere(&self) -> Option<Finding> {
        if self.shows
            || self
                .found
                .iter()
                .any(|kubelet| is_same(&kubelet.root.path, &self.root))
        {
            return None;
        }
        let first = self.found.first()?;
        let KubeletRoot { path, why } = &first.root;
        if !first.is_believed {
            let saw = format!(
                "a process in a container says that the kubelet's root directory is {} ({why}), and kubelet.root_dir is {}; root_dir = \"auto\" believes no process in a container, because any pod can say so",
                path.display(),
                self.root.display()
            );
            let mend = format!(
                "if it is this node's kubelet, set kubelet.root_dir = \"{}\" and reload",
                path.display()
            );
            return Some(Finding::fault("kubelet root-dir", saw, mend));
        }
        let saw = format!(
            "the kubelet's root directory is {} ({why}), but kubelet.root_dir is {}",
            path.display(),
            self.root.display()
        );
        let mend = format!("set kubelet.root_dir = \"{}\" and reload", path.display());
        Some(Finding::fault("kubelet root-dir", saw, mend))
    }

    /// KubeletFindings of the node that name different roots, while none has told the daemon which it is.
    pub(super) fn dispute(&self) -> Option<Finding> {
        if self.spoke.is_some() {
            return None;
        }
        let believed = self.found.iter().filter(|kubelet| kubelet.is_believed);
        let between = agreed(believed.map(|kubelet| kubelet.root.clone()).collect()).err()?;
        let saw = format!(
            "kubelets with different root directories run: {between}; kubelet.root_dir is {}, and \"auto\" follows none of them",
            self.root.display()
        );
        let mend =
            "set kubelet.root_dir to the root directory of the one that has this node's pods";
        Some(Finding::warning("kubelet root-dir", saw, mend))
    }

    /// The link's target or csi.sock is not there for a kubelet that has its own root.
    pub(super) fn blind(&self, target: &Path, endpoint: &Path) -> Option<Finding> {
        let ours = self
            .found
            .iter()
            .find(|kubelet| is_same(&kubelet.root.path, &self.root));
        let named = ours.and_then(|kubelet| kubelet.root.why.pid());
        let pid = self.spoke.or(named).or(self.shown)?;
        let root = self.proc.join(pid.to_string()).join("root");
        for (path, check, key) in [
            (
                target,
                "kubelet's view of reg.sock",
                "kubelet.sees_registry_as",
            ),
            (
                endpoint,
                "kubelet's view of csi.sock",
                "the driver's endpoint",
            ),
        ] {
            let Ok(inside) = path.strip_prefix("/") else {
                continue;
            };
            match fs::metadata(root.join(inside)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && root.exists() => {
                    let saw = format!(
                        "the kubelet (pid {pid}) has a root of its own, without {}",
                        path.display()
                    );
                    let mend = format!(
                        "mount the directory into the kubelet's container, or set {key} to its path there"
                    );
                    return Some(Finding::fault(check, saw, mend));
                }
                Ok(_) | Err(_) => {}
            }
        }
        None
    }
}
