//! The volumes that a driver mounts: the kubelet sees them, and so do the pods.
//!
//! A driver in another mount namespace mounts a volume successfully, and the kubelet gives the pod the empty
//! directory below it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::kubelets::KubeletFindings;
use super::{Finding, Inputs};
use crate::config::DriverSettings;
use crate::disk::propagation::{Barrier, MountView, Propagation, propagation};
use crate::disk::socket::{ListenerProbe, probe};
use crate::os::peer::Peer;
use crate::os::process::{
    ContainerRuntime, container_runtime, described, service_above, service_in,
};
use crate::os::text::quoted;
use crate::systemd::mount_namespace::{NamespaceLine, ServiceFiles, namespace_lines};

const CHECK: &str = "mount propagation";
/// It listens on the socket of a driver that it starts on demand.
const SYSTEMD: u32 = 1;
/// The largest file of a unit that is read.
const MOST_BYTES: u64 = 1 << 20;

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
pub(super) async fn check(
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
        Ok(barriers) => comparison.finding(barriers).await,
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

    async fn finding(&self, barriers: Barriers) -> Option<Finding> {
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
        Some(level(CHECK, found, self.fix().await))
    }

    /// How to give both processes the same mounts. The process that is in the node's own namespace stays
    /// there.
    async fn fix(&self) -> String {
        let proc = &self.inputs.proc;
        // Without the right to look at process 1, our own namespace counts as the node's.
        let of_node = namespace(&self.process(SYSTEMD)).or_else(|| namespace(&proc.join("self")));
        let is_of_node = |pid| of_node.is_some() && namespace(&self.process(pid)) == of_node;
        let (pid, name) = match is_of_node(self.driver) && !is_of_node(self.kubelet) {
            true => (self.kubelet, "kubelet"),
            false => (self.driver, "driver"),
        };
        let fix = match (container_runtime(proc, pid), service_in(proc, pid)) {
            (Some(runtime), _) => self.container_fix(pid, name, runtime).await,
            (None, Some(service)) => self.service_fix(&service).await,
            (None, None) => format!(
                "start the {name} in the node's own mount namespace, or with {} shared (rshared)",
                self.root.display()
            ),
        };
        format!("{fix}\nthen delete the pods that use its volumes: their directories stay empty")
    }

    async fn container_fix(&self, pid: u32, name: &str, runtime: ContainerRuntime) -> String {
        let root = self.root.display();
        let volume = format!("{root}:{root}:rshared");
        if runtime == ContainerRuntime::Kubelet {
            return format!(
                "in the pod of the {name}, set mountPropagation: Bidirectional for the volumeMount of {root}, which needs privileged: true"
            );
        }
        let run = format!("run the container of the {name} with: -v {volume}");
        let Some(service) = service_above(&self.inputs.proc, pid) else {
            return run;
        };
        let files = ServiceFiles::of(&service).await;
        match files.and_then(|files| files.source) {
            Some(quadlet) => format!(
                "in {}, write Volume={volume}; then: {}",
                quadlet.display(),
                restart(&service)
            ),
            None => format!("{run}; the service is {service}"),
        }
    }

    async fn service_fix(&self, service: &str) -> String {
        let restart = restart(service);
        let Some(files) = ServiceFiles::of(service).await else {
            return format!(
                "remove the lines of {service} that make a mount namespace, such as PrivateMounts=, PrivateTmp= and ProtectSystem=: systemctl cat {}; then: {restart}",
                quoted(service)
            );
        };
        let paths = files.paths.into_iter();
        let paths = paths.filter(|path| !self.inputs.reach.may_hang(path));
        let read: Vec<(PathBuf, String)> = paths
            .filter_map(|path| Some((path.clone(), read_unit(&path).ok()?)))
            .collect();
        let texts = read
            .iter()
            .map(|(path, text)| (path.as_path(), text.as_str()));
        lines_fix(&namespace_lines(texts), service, &self.root)
    }
}

/// Names every line, because a line that stays keeps the namespace.
fn lines_fix(lines: &[NamespaceLine], service: &str, root: &Path) -> String {
    let restart = restart(service);
    if lines.is_empty() {
        let root = root.display();
        return format!(
            "{restart}\nno line of its files makes a mount namespace now; if the finding remains, the program in ExecStart= makes it: run that with {root} shared, such as -v {root}:{root}:rshared for a container"
        );
    }
    let edit = if lines.iter().any(NamespaceLine::is_packaged) {
        let service = quoted(service);
        format!(
            "in a file of a package, do not remove a line: set it to \"no\", or a list to nothing, with: systemctl edit {service}\n"
        )
    } else {
        String::new()
    };
    let listed: String = lines.iter().map(|line| format!("{line}\n")).collect();
    format!(
        "remove these lines of {service}, each of which makes a mount namespace by itself:\n{listed}{edit}then: {restart}"
    )
}

fn restart(service: &str) -> String {
    format!(
        "systemctl daemon-reload && systemctl restart {}",
        quoted(service)
    )
}

/// Both processes are in one mount namespace. Not known without the right to look at both.
fn is_same_namespace(a: &Path, b: &Path) -> bool {
    namespace(a).is_some_and(|of_a| namespace(b) == Some(of_a))
}

/// The mount namespace of the process with this directory in /proc; none if we may not look at it.
fn namespace(process: &Path) -> Option<PathBuf> {
    fs::read_link(process.join("ns/mnt")).ok()
}

fn read_unit(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = File::open(path)?.take(MOST_BYTES);
    io::BufReader::new(file).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(files: &[(&str, &str)]) -> String {
        let files = files.iter().map(|(path, text)| (Path::new(*path), *text));
        let root = Path::new("/var/lib/kubelet");
        lines_fix(&namespace_lines(files), "nfs.service", root)
    }

    #[test]
    fn the_fix_names_every_line_that_keeps_the_namespace() {
        let unit = "[Service]\nPrivateTmp=yes\n";
        let drop_in = "[Service]\nProtectSystem=full\n";
        let restart = "systemctl daemon-reload && systemctl restart nfs.service";
        assert_eq!(
            fix(&[("/etc/u/nfs.service", unit), ("/etc/u/x.conf", drop_in)]),
            format!(
                "remove these lines of nfs.service, each of which makes a mount namespace by itself:\n\
                 /etc/u/nfs.service:2: PrivateTmp=yes\n\
                 /etc/u/x.conf:2: ProtectSystem=full\n\
                 then: {restart}"
            )
        );
        let packaged = fix(&[("/usr/lib/systemd/system/nfs.service", unit)]);
        assert!(
            packaged.contains("systemctl edit nfs.service"),
            "{packaged}"
        );
        // The operator has removed the lines, and not restarted the service.
        let none = fix(&[("/etc/u/nfs.service", "[Service]\nPrivateTmp=no\n")]);
        assert!(none.starts_with(restart), "{none}");
        assert!(none.contains(":rshared"), "{none}");
    }
}
