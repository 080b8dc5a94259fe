//! The kubelets that run, and the root directory that each of them uses.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::sandbox::inside;
use super::{Finding, Inputs};
use crate::disk::nesting::is_one;
use crate::kubelet::process::{KubeletProcess, running};
use crate::kubelet::start_sockets::StartSockets;

const ROOT_DIR: &str = "kubelet root-dir";

/// The kubelets in /proc, and the kubelet that listens below our root.
pub(super) struct KubeletFindings {
    proc: PathBuf,
    /// Kubelets that are believed come first.
    found: Vec<KubeletProcess>,
    /// The process that sent Notify to the daemon. It is a kubelet that sees our link, whatever its
    /// name is.
    notified: Option<u32>,
    root: PathBuf,
    /// In our root. The process that listens there may have another name, such as k3s.
    sockets: StartSockets,
}

impl KubeletFindings {
    pub(super) fn find(inputs: &Inputs) -> KubeletFindings {
        let root = inputs.settings.kubelet_root().to_owned();
        let status = inputs.daemon.as_ref().ok();
        KubeletFindings {
            proc: inputs.proc.clone(),
            found: running(&inputs.proc),
            notified: status.and_then(|status| status.kubelet.as_ref()?.pid),
            sockets: StartSockets::of(&root),
            root,
        }
    }

    /// Why the kubelet's directory does not exist.
    pub(super) fn why_no_directory(&self, directory: &Path) -> Finding {
        let directory = directory.display();
        let found = format!("{directory} is missing; the kubelet creates it when it starts");
        let restart = "systemctl restart kubelet";
        self.elsewhere()
            .or_else(|| self.none_runs(&found))
            .unwrap_or_else(|| Finding::fault("kubelet directory", found, restart))
    }

    /// Why no kubelet looks into our directory. A kubelet that sent Notify does.
    pub(super) fn not_seen_at_all(&self) -> Option<Finding> {
        if self.notified.is_some() {
            return None;
        }
        let socket = self.root.join("pod-resources/kubelet.sock");
        let socket = socket.display();
        let found = format!("no process has that name, and no process listens on {socket}");
        self.elsewhere().or_else(|| self.none_runs(&found))
    }

    fn none_runs(&self, found: &str) -> Option<Finding> {
        let none = self.found.is_empty() && !self.sockets.show_a_kubelet();
        let found = format!("no kubelet runs: {found}");
        none.then(|| Finding::fault("kubelet running", found, "systemctl start kubelet"))
    }

    /// The kubelet with our root.
    fn ours(&self) -> Option<&KubeletProcess> {
        let mut found = self.found.iter();
        found.find(|kubelet| is_one(&kubelet.root(), &self.root))
    }

    /// The process of the kubelet with our root, as far as it is known: the process that sent Notify, the
    /// process that names our root, or the process that listens there.
    pub(super) fn process(&self) -> Option<u32> {
        let named = || self.ours().map(|kubelet| kubelet.pid);
        let listener = || self.sockets.listener()?.pid;
        self.notified.or_else(named).or_else(listener)
    }

    /// Kubelets run, but none of them with our root.
    fn elsewhere(&self) -> Option<Finding> {
        if self.sockets.show_a_kubelet() || self.ours().is_some() {
            return None;
        }
        let first = self.found.first()?;
        let KubeletProcess { pid, program, .. } = first;
        let why = match first.named_root() {
            Some(_) => "names it on its command line",
            None => "names no other directory",
        };
        let root = first.root();
        let (theirs, ours) = (root.display(), self.root.display());
        let mut found = format!(
            "the kubelet's root directory is {theirs} ({program} (pid {pid}) {why}), but kubelet.root_dir is {ours}"
        );
        let mut fix = format!("set kubelet.root_dir = \"{theirs}\" and reload");
        if !first.is_believed {
            found = format!(
                "a process with other mounts than the node's, such as in a container, says: {found}; any pod can say so"
            );
            fix = format!("if it is this node's kubelet, {fix}");
        }
        Some(Finding::fault(ROOT_DIR, found, fix))
    }

    /// The kubelet has its own root file system, without the link's target or without csi.sock.
    pub(super) fn blind(&self, target: &Path, endpoint: &Path) -> Option<Finding> {
        const REG_SOCKET: &str = "kubelet's view of reg.sock";
        const CSI_SOCKET: &str = "kubelet's view of csi.sock";
        let pid = self.process()?;
        let root = self.proc.join(pid.to_string()).join("root");
        let views = [
            (target, REG_SOCKET, "kubelet.sees_registry_as"),
            (endpoint, CSI_SOCKET, "the driver's endpoint"),
        ];
        let (path, check, key) = views.into_iter().find(|(path, ..)| {
            let seen = fs::metadata(inside(&root, path));
            seen.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) && root.exists()
        })?;
        let path = path.display();
        let found = format!("the kubelet (pid {pid}) has its own root file system, without {path}");
        let fix = format!("mount it into the kubelet's container, or set {key} to its path there");
        Some(Finding::fault(check, found, fix))
    }
}
