//! The volumes that a driver mounts: the kubelet sees them, and so do the pods.
//!
//! A driver in another mount namespace mounts a volume successfully, and the kubelet gives the pod the empty
//! directory below it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::kubelets::KubeletFindings;
use super::{Finding, Inputs};
use crate::config::DriverSettings;
use crate::disk::propagation::{Barrier, MountView, Propagation, propagation};
use crate::disk::socket::{ListenerProbe, probe};
use crate::os::peer::Peer;
use crate::os::process::{described, service_in};
use crate::os::text::quoted;

const CHECK: &str = "mount propagation";
/// It listens on the socket of a driver that it starts on demand.
const SYSTEMD: u32 = 1;

/// The process behind csi.sock and the kubelet's process, as /proc shows them.
struct Comparison<'a> {
    inputs: &'a Inputs,
    driver: u32,
    kubelet: u32,
    /// The kubelet's root directory.
    root: PathBuf,
}

/// The reasons why the kubelet does not see the driver's mounts.
struct Barriers {
    /// Below the directory of the pods.
    pods: Option<Barrier>,
    /// Below the directory of staged volumes and of raw block volumes.
    staged: Option<Barrier>,
}

/// Why the doctor could not compare the two processes.
#[derive(Debug, thiserror::Error)]
enum NotChecked {
    #[error("a process in another pid namespace serves csi.sock")]
    OtherPids,
    #[error("process 1 serves csi.sock, as systemd does for a driver that it starts on demand")]
    SocketUnit,
    #[error(
        "the kubelet, {kubelet}, receives mounts from peer group {group}, which has its members in a third mount namespace"
    )]
    ThirdNamespace {
        kubelet: String,
        group: u64,
        below: PathBuf,
    },
    #[error("cannot read the mounts of {processes}: {error}")]
    Unreadable { processes: String, error: io::Error },
}

/// Why no pod sees the volumes that the driver mounts. Without a kubelet, another check says so.
pub(super) fn check(
    inputs: &Inputs,
    kubelets: &KubeletFindings,
    settings: &DriverSettings,
) -> Option<Finding> {
    let kubelet = kubelets.process()?;
    // The check of the driver reports a path that may hang.
    if inputs.reach.may_hang(&settings.csi_socket) {
        return None;
    }
    let ListenerProbe::Alive(Some(stream)) = probe(&settings.csi_socket) else {
        return None;
    };
    let root = inputs.settings.kubelet_root().to_owned();
    let driver = match Peer::of(&stream).ok()?.pid {
        None => return Some(NotChecked::OtherPids.finding()),
        Some(SYSTEMD) => return Some(NotChecked::SocketUnit.finding()),
        Some(driver) => driver,
    };
    let comparison = Comparison {
        inputs,
        driver,
        kubelet,
        root,
    };
    match comparison.barriers() {
        Ok(barriers) => comparison.finding(barriers),
        Err(not_checked) => Some(not_checked.finding()),
    }
}

impl NotChecked {
    fn finding(&self) -> Finding {
        let fix = match self {
            NotChecked::SocketUnit => {
                "compare by hand: readlink /proc/PID/ns/mnt prints the same for the driver and for the kubelet".to_owned()
            }
            NotChecked::ThirdNamespace { below, .. } => format!(
                "compare by hand: a volume that the driver has mounted below {} is also in /proc/PID/mountinfo of the kubelet",
                below.display()
            ),
            NotChecked::OtherPids | NotChecked::Unreadable { .. } => {
                "run the doctor as root on the node itself, not in a container".to_owned()
            }
        };
        let found = format!(
            "the doctor did not check whether pods see the volumes that the driver mounts: {self}"
        );
        Finding::warning(CHECK, found, fix)
    }
}

impl Comparison<'_> {
    fn barriers(&self) -> Result<Barriers, NotChecked> {
        let none = Barriers {
            pods: None,
            staged: None,
        };
        let [driver, kubelet] = [self.driver, self.kubelet].map(|pid| self.process(pid));
        // This proc file system shows other processes than those of the node, as in a pod without hostPID.
        // A note of the daemon says that it cannot see the kubelet.
        let is_blind = !driver.exists() && !kubelet.exists();
        if is_blind || is_same_namespace(&driver, &kubelet) {
            return Ok(none);
        }
        let [maker, viewer] = [self.view(self.driver)?, self.view(self.kubelet)?];
        let between = |path: PathBuf| match propagation(&maker, &viewer, &path) {
            Ok(Propagation::Shows) => Ok(None),
            Ok(Propagation::Stays(barrier)) => Ok(Some(barrier)),
            Ok(Propagation::NotKnown { group }) => Err(NotChecked::ThirdNamespace {
                kubelet: described(&self.inputs.proc, self.kubelet),
                group,
                below: path,
            }),
            Err(error) => Err(self.unreadable(&[self.driver, self.kubelet], error)),
        };
        // A fault of the directory of the pods is told, whatever is known about the other directory.
        let pods = between(self.pods())?;
        if pods.is_some() {
            return Ok(Barriers { pods, staged: None });
        }
        let staged = between(self.staging())?;
        Ok(Barriers {
            pods,
            // A container without this directory has a driver that stages no volumes.
            staged: staged.filter(|barrier| !matches!(barrier, Barrier::OtherDirectory { .. })),
        })
    }

    fn view(&self, pid: u32) -> Result<MountView, NotChecked> {
        MountView::of(&self.process(pid)).map_err(|error| self.unreadable(&[pid], error))
    }

    fn unreadable(&self, pids: &[u32], error: io::Error) -> NotChecked {
        let processes = pids.iter().map(|pid| described(&self.inputs.proc, *pid));
        let processes = processes.collect::<Vec<String>>().join(" and ");
        NotChecked::Unreadable { processes, error }
    }

    fn process(&self, pid: u32) -> PathBuf {
        self.inputs.proc.join(pid.to_string())
    }

    fn pods(&self) -> PathBuf {
        self.root.join("pods")
    }

    fn staging(&self) -> PathBuf {
        self.root.join("plugins/kubernetes.io/csi")
    }

    fn finding(&self, barriers: Barriers) -> Option<Finding> {
        let (level, path, barrier, effect): (fn(_, _, _) -> Finding, _, _, _) = match barriers {
            Barriers {
                pods: Some(barrier),
                ..
            } => (
                Finding::fault,
                self.pods(),
                barrier,
                "volumes are mounted where no pod sees them, and data is written to the node's own disk",
            ),
            // The driver binds a staged volume into the directory of the pod, which the kubelet sees.
            Barriers {
                pods: None,
                staged: Some(barrier),
            } => (
                Finding::warning,
                self.staging(),
                barrier,
                "pods do not get the raw block volumes of this driver",
            ),
            Barriers {
                pods: None,
                staged: None,
            } => return None,
        };
        let [driver, kubelet] =
            [self.driver, self.kubelet].map(|pid| described(&self.inputs.proc, pid));
        let path = path.display();
        let found = format!(
            "{effect}: the driver, {driver}, and the kubelet, {kubelet}, are in different mount namespaces, and the kubelet does not see the mounts that the driver makes below {path}, because for the driver {barrier}; a driver that mounts through nsenter in the node's namespace, or behind a proxy that serves csi.sock, is not affected"
        );
        Some(level(CHECK, found, self.fix()))
    }

    /// How to give both processes the same mounts. The process that is in the node's own namespace stays
    /// there.
    fn fix(&self) -> String {
        let proc = &self.inputs.proc;
        // Without the right to look at process 1, our own namespace counts as the node's.
        let of_node = namespace(&self.process(SYSTEMD)).or_else(|| namespace(&proc.join("self")));
        let is_of_node = |pid| of_node.is_some() && namespace(&self.process(pid)) == of_node;
        let (pid, name) = match is_of_node(self.driver) && !is_of_node(self.kubelet) {
            true => (self.kubelet, "kubelet"),
            false => (self.driver, "driver"),
        };
        let root = self.root.display();
        let volume = format!("-v {root}:{root}:rshared");
        let fix = match service_in(proc, pid) {
            Some(service) => {
                let service = quoted(&service);
                format!(
                    "remove every directive that gives the {name} a mount namespace of its own, such as PrivateTmp= and ProtectSystem= (docs/troubleshooting.md has the list): systemctl cat {service}; or, if the service starts a container, start it with: {volume}; then: systemctl daemon-reload && systemctl restart {service}"
                )
            }
            None => format!(
                "run the container of the {name} with: {volume} (in a quadlet: Volume={root}:{root}:rshared); in its pod, set mountPropagation: Bidirectional for the volumeMount of {root}, which needs privileged: true"
            ),
        };
        format!("{fix}\nthen delete the pods that use its volumes: their directories stay empty")
    }
}

/// Both processes are in one mount namespace. Not known without the right to look at both.
fn is_same_namespace(a: &Path, b: &Path) -> bool {
    namespace(a).is_some_and(|of_a| namespace(b) == Some(of_a))
}

/// The mount namespace of the process with this directory in /proc; none if we may not look at it.
fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}
