//! Where the kubelet's root directory is, for `root_dir = "auto"`.
//!
//! Only what no pod can fake is believed: the process that told us how a registration went; the one
//! that listens on the pod-resources socket of a directory that only root may write to; a process of
//! the node itself, or the main process of a unit that is known to be a kubelet's, by its command line
//! or its configuration file. Where these disagree, or none runs, what was known stays, or the
//! well-known directory that a kubelet has been at work in is taken.

mod claim;
mod host;

use std::cell::OnceCell;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use self::claim::Claim;
use self::host::Host;
use super::start_sockets::StartSockets;
use crate::disk::directory;

/// Where kubelets live when nothing says otherwise.
const DEFAULT: &str = "/var/lib/kubelet";

/// Where distributions have put it, the most common first.
const WELL_KNOWN: [&str; 6] = [
    DEFAULT,
    "/var/lib/k0s/kubelet",
    "/var/snap/microk8s/common/var/lib/kubelet",
    "/opt/rke/var/lib/kubelet",
    "/var/vcap/data/kubelet",
    "/var/lib/rancher/k3s/agent/kubelet",
];

/// What a kubelet makes in its root when it starts. Drivers make `plugins` there by themselves.
const MARKS: [&str; 2] = ["plugins_registry", "pod-resources"];

/// A root directory, and why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletRoot {
    pub(crate) path: PathBuf,
    pub(crate) why: RootSource,
}

/// What the choice rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RootSource {
    /// The last that told us how a registration went, and still runs.
    Called { pid: u32 },
    /// A flag of a process that runs.
    Flag { pid: u32, program: String },
    /// The configuration file of a kubelet that runs.
    ConfigFile { pid: u32, file: PathBuf },
    /// A process listens on the pod-resources socket in it.
    Listens { pid: Option<u32> },
    /// A process that runs and says nothing of it.
    Program { pid: u32, program: String },
    /// Two that are believed disagree, in words.
    Disputed(String),
    /// No kubelet runs; the last that called us since the machine was started had it.
    Before,
    /// No kubelet runs, but one has been here.
    Marked(&'static str),
    /// Nothing was found.
    Default,
}

impl fmt::Display for RootSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RootSource::Called { pid } => write!(f, "the last that called had it, and still runs, pid {pid}"),
            RootSource::Flag { pid, program } => write!(f, "{program}, pid {pid}, has it on its command line"),
            RootSource::ConfigFile { pid, file } => {
                write!(f, "{}, which the kubelet, pid {pid}, has as --config, names it", file.display())
            }
            RootSource::Listens { pid: Some(pid) } => write!(f, "pid {pid} listens on pod-resources/kubelet.sock in it"),
            RootSource::Listens { pid: None } => f.write_str("a kubelet listens on pod-resources/kubelet.sock in it"),
            RootSource::Program { pid, program } => {
                write!(f, "{program}, pid {pid}, names no other on its command line")
            }
            RootSource::Disputed(between) => write!(f, "kubelets disagree, so that none of them was followed: {between}"),
            RootSource::Before => f.write_str("no kubelet runs, and the last that called had it"),
            RootSource::Marked(mark) => write!(f, "no kubelet runs, and {mark} is in it"),
            RootSource::Default => f.write_str(
                "no kubelet runs, and no well-known directory has been a kubelet's; this is the usual one",
            ),
        }
    }
}

impl RootSource {
    /// The process that has this root.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            RootSource::Called { pid }
            | RootSource::Flag { pid, .. }
            | RootSource::ConfigFile { pid, .. }
            | RootSource::Program { pid, .. } => Some(*pid),
            RootSource::Listens { pid } => *pid,
            RootSource::Disputed(_)
            | RootSource::Before
            | RootSource::Marked(_)
            | RootSource::Default => None,
        }
    }

    /// How much it counts for, the least for the most: a kubelet proper goes before a program that
    /// has one in it, and what is said before what is not.
    fn rank(&self) -> u32 {
        match self {
            RootSource::Called { .. } => 0,
            RootSource::Flag { .. } => 1,
            RootSource::ConfigFile { .. } => 2,
            RootSource::Listens { .. } => 3,
            RootSource::Program { program, .. } if program == "kubelet" => 4,
            RootSource::Program { .. } => 5,
            RootSource::Disputed(_)
            | RootSource::Before
            | RootSource::Marked(_)
            | RootSource::Default => 6,
        }
    }

    /// What is said is not weighed against what is assumed, nor a kubelet's default against that of
    /// a program around one.
    fn tier(&self) -> u32 {
        match self {
            RootSource::Program { program, .. } if program == "kubelet" => 1,
            RootSource::Program { .. } => 2,
            _ => 0,
        }
    }
}

/// A process that calls itself a kubelet, and the root directory that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) root: KubeletRoot,
    /// It is the node's own, or systemd says that it is a kubelet's unit. Any other one is in a
    /// container.
    pub(crate) is_believed: bool,
}

/// The root directory of this node's kubelet. `called` is the root of the kubelet that last told us
/// how a registration went, and `known` the one that was taken last. While none runs, that one stays:
/// to move every driver to a guess would be no better. `units` asks systemd for the main processes of
/// kubelets' units.
pub(crate) fn find(
    called: Option<KubeletRoot>,
    known: Option<KubeletRoot>,
    units: fn() -> Vec<u32>,
) -> KubeletRoot {
    find_in(Path::new("/proc"), Path::new("/"), called, known, units)
}

/// The same with another `/proc`, and a directory that well-known paths are looked for in.
fn find_in(
    proc: &Path,
    system: &Path,
    called: Option<KubeletRoot>,
    known: Option<KubeletRoot>,
    units: fn() -> Vec<u32>,
) -> KubeletRoot {
    let known = match called {
        Some(root) if matches!(root.why, RootSource::Called { .. }) => return root,
        called => known.or(called),
    };
    let trust = Trust::new(proc, units);
    let mut found: Vec<KubeletRoot> = running_by(&trust)
        .into_iter()
        .filter(|running| running.is_believed)
        .map(|running| running.root)
        .collect();
    found.extend(listening(system, known.as_ref(), &trust));
    match agreed(found) {
        Ok(Some(root)) => root,
        Ok(None) => known.unwrap_or_else(|| unknown(system)),
        Err(between) => KubeletRoot {
            path: known.unwrap_or_else(|| unknown(system)).path,
            why: RootSource::Disputed(between),
        },
    }
}

/// The one root that all name who say anything, or else the first that is assumed.
///
/// # Errors
/// Two that differ, in words.
pub(crate) fn agreed(mut found: Vec<KubeletRoot>) -> Result<Option<KubeletRoot>, String> {
    found.sort_by_key(|root| (root.why.rank(), root.why.pid()));
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

/// The same directory, whatever links lead there.
pub(crate) fn is_same(a: &Path, b: &Path) -> bool {
    a == b || directory::is_same(a, b) == Some(true)
}

/// The processes that call themselves kubelets: those that are believed first, and of these the ones
/// that say most.
pub(crate) fn running(proc: &Path, units: fn() -> Vec<u32>) -> Vec<Running> {
    running_by(&Trust::new(proc, units))
}

fn running_by(trust: &Trust) -> Vec<Running> {
    let proc = trust.proc;
    let entries = match fs::read_dir(proc) {
        Ok(entries) => entries,
        Err(error) => {
            tracing::warn!(%error, directory = %proc.display(), "cannot look for a kubelet that runs");
            return Vec::new();
        }
    };
    let pids = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let claims: Vec<Claim> = pids.filter_map(|pid| Claim::of(proc, pid)).collect();
    let mut found: Vec<Running> = claims
        .into_iter()
        .map(|claim| {
            let is_believed = trust.believes(claim.pid);
            let root = claim.root(is_believed);
            Running { root, is_believed }
        })
        .collect();
    found.sort_by_key(|running| {
        let why = &running.root.why;
        (!running.is_believed, why.rank(), why.pid())
    });
    found
}

/// Which processes are the node's own.
struct Trust<'a> {
    proc: &'a Path,
    host: Host,
    units: fn() -> Vec<u32>,
    /// Of the units of kubelets; asked for when it matters.
    main_pids: OnceCell<Vec<u32>>,
}

impl Trust<'_> {
    fn new(proc: &Path, units: fn() -> Vec<u32>) -> Trust<'_> {
        Trust {
            proc,
            host: Host::of(proc),
            units,
            main_pids: OnceCell::new(),
        }
    }

    fn believes(&self, pid: u32) -> bool {
        self.host.has(&self.proc.join(pid.to_string()))
            || self.main_pids.get_or_init(self.units).contains(&pid)
    }
}

/// The roots in which a process of root's listens as a kubelet does. A pod could listen in a volume of
/// its own and name that as its root, so that only well-known roots count; and it could have one of
/// these for a volume, so that only a process of the node itself does.
fn listening(system: &Path, known: Option<&KubeletRoot>, trust: &Trust) -> Vec<KubeletRoot> {
    let below = |path: &&str| system.join(path.trim_start_matches('/'));
    let well_known = WELL_KNOWN
        .iter()
        .map(|path| (PathBuf::from(path), below(path)));
    let known = known.map(|root| (root.path.clone(), root.path.clone()));
    let found = well_known.chain(known).filter_map(|(path, place)| {
        let listener = StartSockets::of(&place).listener()?;
        let is_believed = listener.pid.is_some_and(|pid| trust.believes(pid));
        let why = RootSource::Listens { pid: listener.pid };
        (listener.is_trusted() && is_believed).then_some(KubeletRoot { path, why })
    });
    found.collect()
}

/// What is taken when nobody says anything.
fn unknown(system: &Path) -> KubeletRoot {
    marked(system).unwrap_or_else(|| KubeletRoot {
        path: DEFAULT.into(),
        why: RootSource::Default,
    })
}

fn marked(system: &Path) -> Option<KubeletRoot> {
    let below = |path: &str| system.join(path.trim_start_matches('/'));
    WELL_KNOWN.iter().find_map(|root| {
        let mark = MARKS.iter().find(|mark| below(root).join(mark).is_dir())?;
        Some(KubeletRoot {
            path: root.into(),
            why: RootSource::Marked(mark),
        })
    })
}

#[cfg(test)]
mod tests;
