//! The kubelet's root directory, for `root_dir = "auto"`.
//!
//! This believes only what no pod can fake: the process that reported a registration; the process
//! that listens on the pod-resources socket in a directory that only root can write to; and, by its
//! command line or its configuration file, a process of the node itself or the main process of a
//! kubelet's unit. If these disagree, or if none runs, the last known root stays. Without a last
//! known root, it is the well-known directory that a kubelet has used.

#[cfg(feature = "cluster")]
pub(crate) mod api_access;
mod claim;
mod host;

pub(crate) use self::host::Host;

use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::start_sockets::StartSockets;
use crate::disk::directory;

/// The kubelet's own default.
const DEFAULT: &str = "/var/lib/kubelet";

/// The directories of distributions, the most common first.
const WELL_KNOWN: [&str; 6] = [
    DEFAULT,
    "/var/lib/k0s/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/opt/rke/var/lib/kubelet",
    "/var/vcap/data/kubelet",
    "/var/lib/rancher/k3s/agent/kubelet",
];

/// The directories that a kubelet creates in its root when it starts. Drivers create `plugins`
/// themselves.
const MARKS: [&str; 2] = ["plugins_registry", "pod-resources"];

/// A root directory, and why it was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletRoot {
    pub(crate) path: PathBuf,
    pub(crate) why: RootSource,
}

/// The reason for a choice, the strongest first. A kubelet proper is stronger than a program that
/// contains a kubelet, and a statement is stronger than an assumption. `Error` gives each its
/// words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub(crate) enum RootSource {
    /// The last kubelet that reported a registration, while it runs.
    #[error("the kubelet that last called uses it and still runs (pid {pid})")]
    Called { pid: u32 },
    /// A flag of a running process.
    #[error("{program} (pid {pid}) names it on its command line")]
    Flag { pid: u32, program: String },
    /// The configuration file of a running kubelet.
    #[error("kubelet (pid {pid}) names it in {}", .file.display())]
    ConfigFile { pid: u32, file: PathBuf },
    /// A process listens on the pod-resources socket in it.
    #[error("pid {pid} listens on pod-resources/kubelet.sock in it")]
    Listens { pid: u32 },
    /// A running kubelet that names no root.
    #[error("kubelet (pid {pid}) names no other directory")]
    Kubelet { pid: u32 },
    /// A running program that contains a kubelet and names no root.
    #[error("{program} (pid {pid}) names no other directory")]
    Wrapper { pid: u32, program: String },
    /// Two trusted processes disagree, in words.
    #[error("kubelets disagree, so \"auto\" follows none of them: {0}")]
    Disputed(String),
    /// No kubelet runs. The last kubelet that called since the boot used it.
    #[error("no kubelet runs; the kubelet that last called used it")]
    Before,
    /// No kubelet runs, but a kubelet has created this directory in it.
    #[error("no kubelet runs; {0} exists in it")]
    Marked(&'static str),
    #[error("no kubelet runs, and no kubelet has used a well-known directory; this is the default")]
    Default,
}

impl RootSource {
    /// Sources of different tiers do not disagree: a statement is not compared with an assumption,
    /// nor the default of a kubelet with the default of a program that contains one.
    fn tier(&self) -> u32 {
        match self {
            RootSource::Kubelet { .. } => 1,
            RootSource::Wrapper { .. } => 2,
            _ => 0,
        }
    }
}

/// A process that calls itself a kubelet, and the root directory that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) pid: u32,
    pub(crate) root: KubeletRoot,
    /// The process runs on the node itself, or is the main process of a kubelet's unit. Any other
    /// process is in a container.
    pub(crate) is_believed: bool,
}

/// The root directory of this node's kubelet. `called` is the root of the kubelet that last
/// reported a registration, and `known` is the root that was chosen last. While no kubelet runs,
/// that root stays: a guess is no better reason to move every driver.
pub(crate) fn find(
    host: &Host,
    called: Option<KubeletRoot>,
    known: Option<KubeletRoot>,
) -> KubeletRoot {
    let known = match called {
        Some(root) if matches!(root.why, RootSource::Called { .. }) => return root,
        called => known.or(called),
    };
    let believed = running(host)
        .into_iter()
        .filter(|running| running.is_believed);
    let mut found: Vec<KubeletRoot> = believed.map(|running| running.root).collect();
    // Well-known paths are below the directory of /proc, which is / except in tests.
    let system = directory::of(host.proc);
    found.extend(listening(system, known.as_ref(), host));
    let agreed = agreed(found);
    if let Ok(Some(root)) = agreed {
        return root;
    }
    let mut root = known.unwrap_or_else(|| marked(system));
    if let Err(between) = agreed {
        root.why = RootSource::Disputed(between);
    }
    root
}

/// The root with the strongest source, if all sources of its tier name the same directory.
///
/// # Errors
/// Two that differ, in words.
pub(crate) fn agreed(mut found: Vec<KubeletRoot>) -> Result<Option<KubeletRoot>, String> {
    found.sort_by(|a, b| a.why.cmp(&b.why));
    let mut found = found.into_iter();
    let Some(first) = found.next() else {
        return Ok(None);
    };
    let other = found
        .find(|other| other.why.tier() == first.why.tier() && !is_same(&other.path, &first.path));
    match other {
        None => Ok(Some(first)),
        Some(other) => {
            let words = |root: &KubeletRoot| format!("{} ({})", root.path.display(), root.why);
            Err(format!("{} and {}", words(&first), words(&other)))
        }
    }
}

/// Both paths lead to the same directory, whatever links are on the way.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    a == b || directory::is_same(a, b) == Some(true)
}

/// The processes that call themselves kubelets: trusted processes first, and each group by the
/// strength of its source.
pub(crate) fn running(host: &Host) -> Vec<Running> {
    let entries = fs::read_dir(host.proc).inspect_err(|error| {
        tracing::warn!(%error, directory = %host.proc.display(), "cannot look for a running kubelet");
    });
    let mut found: Vec<Running> = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Running::of(host, pid))
        .collect();
    found.sort_by(|a, b| a.root.why.cmp(&b.root.why));
    found.sort_by_key(|running| !running.is_believed);
    found
}

/// The roots with a process that listens on the kubelet's pod-resources socket. Only well-known
/// roots count, because a pod could listen in a volume of its own and name that as its root. Only
/// processes of the node itself count, because a pod could have a well-known root as a volume.
fn listening(system: &Path, known: Option<&KubeletRoot>, host: &Host) -> Vec<KubeletRoot> {
    let well_known = WELL_KNOWN.map(|path| (PathBuf::from(path), below(system, path)));
    let known = known.map(|root| (root.path.clone(), root.path.clone()));
    let found = well_known.into_iter().chain(known);
    let found = found.filter_map(|(path, place)| {
        let listener = StartSockets::of(&place).listener()?;
        let pid = listener.pid.filter(|pid| host.believes(*pid))?;
        let why = RootSource::Listens { pid };
        listener.is_trusted().then_some(KubeletRoot { path, why })
    });
    found.collect()
}

/// The root that a kubelet has used, or else the default.
fn marked(system: &Path) -> KubeletRoot {
    let used = WELL_KNOWN.iter().find_map(|root| {
        let has = |mark: &&&str| below(system, root).join(mark).is_dir();
        let mark = MARKS.iter().find(has)?;
        Some((*root, RootSource::Marked(mark)))
    });
    let (path, why) = used.unwrap_or((DEFAULT, RootSource::Default));
    let path = path.into();
    KubeletRoot { path, why }
}

fn below(system: &Path, path: &str) -> PathBuf {
    system.join(path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests;
