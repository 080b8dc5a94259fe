//! Where the kubelet's root directory is, for `root_dir = "auto"`.
//!
//! A kubelet that runs says so on its command line or in its configuration file. Without one, the
//! well-known directory that a kubelet has been at work in is taken.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::unistd::geteuid;

use crate::command_line::flag;

/// Where kubelets live when nothing says otherwise.
const DEFAULT: &str = "/var/lib/kubelet";

/// How much is read of a file that a kubelet's command line names.
const LONGEST_FILE: u64 = 1 << 20;

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

/// Programs that have a kubelet in them, and where that lives when their flags do not say.
const WRAPPERS: [(&str, &str); 4] = [
    ("k3s", DEFAULT),
    ("rke2", DEFAULT),
    ("k0s", "/var/lib/k0s/kubelet"),
    ("kubelite", "/var/snap/microk8s/common/var/lib/kubelet"),
];

/// A root directory, and why it was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletRoot {
    pub(crate) path: PathBuf,
    pub(crate) why: Why,
}

/// What the choice rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// A flag of a process that runs.
    Flag { pid: u32, program: String },
    /// The configuration file of a kubelet that runs.
    ConfigFile { pid: u32, file: PathBuf },
    /// A process that runs and says nothing of it.
    Program { pid: u32, program: String },
    /// No kubelet runs; the last that called us since the machine was started had it.
    Before,
    /// No kubelet runs, but one has been here.
    Marked(&'static str),
    /// Nothing was found.
    Default,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Flag { pid, program } => write!(f, "{program}, pid {pid}, has it on its command line"),
            Why::ConfigFile { pid, file } => {
                write!(f, "{}, which the kubelet, pid {pid}, has as --config, names it", file.display())
            }
            Why::Program { pid, program } => {
                write!(f, "{program}, pid {pid}, names no other on its command line")
            }
            Why::Before => f.write_str("no kubelet runs, and the last that called had it"),
            Why::Marked(mark) => write!(f, "no kubelet runs, and {mark} is in it"),
            Why::Default => f.write_str(
                "no kubelet runs, and no well-known directory has been a kubelet's; this is the usual one",
            ),
        }
    }
}

impl Why {
    /// A kubelet that runs says so.
    pub(crate) fn is_certain(&self) -> bool {
        self.pid().is_some()
    }

    /// The process that has this root.
    pub(crate) fn pid(&self) -> Option<u32> {
        match self {
            Why::Flag { pid, .. } | Why::ConfigFile { pid, .. } | Why::Program { pid, .. } => {
                Some(*pid)
            }
            Why::Before | Why::Marked(_) | Why::Default => None,
        }
    }
}

/// The root directory of this node's kubelet. While none runs, the one that was `known` stays: to
/// move every driver to a guess would be no better.
pub(crate) fn find(known: impl FnOnce() -> Option<KubeletRoot>) -> KubeletRoot {
    let now = find_in(Path::new("/proc"), Path::new("/"));
    if now.why.is_certain() {
        return now;
    }
    known().unwrap_or(now)
}

/// The same with another `/proc`, and a directory that well-known paths are looked for in.
fn find_in(proc: &Path, system: &Path) -> KubeletRoot {
    running(proc)
        .into_iter()
        .next()
        .or_else(|| marked(system))
        .unwrap_or_else(|| KubeletRoot {
            path: DEFAULT.into(),
            why: Why::Default,
        })
}

/// The roots of all kubelets that run. A kubelet proper goes before a program that has one in it,
/// and what is said before what is not.
pub(crate) fn running(proc: &Path) -> Vec<KubeletRoot> {
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
    let mut found: Vec<KubeletRoot> = pids.filter_map(|pid| of_process(proc, pid)).collect();
    let rank = |root: &KubeletRoot| match &root.why {
        Why::Flag { pid, .. } => (0, *pid),
        Why::ConfigFile { pid, .. } => (1, *pid),
        Why::Program { pid, program } => (if program == "kubelet" { 2 } else { 3 }, *pid),
        Why::Before | Why::Marked(_) | Why::Default => (4, 0),
    };
    found.sort_by_key(rank);
    found
}

/// The root of one process, if it is a kubelet or has one in it.
fn of_process(proc: &Path, pid: u32) -> Option<KubeletRoot> {
    let directory = proc.join(pid.to_string());
    // Anybody may call a program "kubelet", and name any root and any file on its command line.
    if !is_trusted(&directory) {
        return None;
    }
    // A process may end between two looks, and a thread of the kernel has no command line.
    let line = fs::read(directory.join("cmdline")).ok()?;
    let arguments: Vec<String> = line
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    let (program, arguments) = program(&arguments)?;
    let said = |path: PathBuf| KubeletRoot {
        path,
        why: Why::Flag {
            pid,
            program: program.to_owned(),
        },
    };
    if let Some(path) = root_flag(program, arguments) {
        return Some(said(path));
    }
    if program == "kubelet"
        && let Some(file) = flag(arguments, "config").and_then(absolute)
        && let Some(path) = in_config_file(&directory, &file)
    {
        return Some(KubeletRoot {
            path,
            why: Why::ConfigFile { pid, file },
        });
    }
    let wrapper = WRAPPERS.iter().find(|(name, _)| *name == program);
    Some(KubeletRoot {
        path: wrapper.map_or(DEFAULT, |(_, root)| root).into(),
        why: Why::Program {
            pid,
            program: program.to_owned(),
        },
    })
}

/// A process of root, or of whoever we are: by what it may do, for its directory in /proc may have
/// root for an owner whoever runs it.
fn is_trusted(process: &Path) -> bool {
    let Ok(status) = fs::read_to_string(process.join("status")) else {
        return false;
    };
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    let ours = geteuid().as_raw();
    users.is_some_and(|users| {
        let mut users = users.split_ascii_whitespace();
        users.all(|user| {
            user.parse()
                .is_ok_and(|user: u32| user == 0 || user == ours)
        })
    })
}

/// The text of a file that a command line names. It is neither waited for nor read for ever.
fn text_of(path: &Path) -> io::Result<String> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = String::new();
    file.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// The name of the program that has a kubelet in it, and its arguments. `hyperkube kubelet` is one,
/// `k3s kubectl` is none.
fn program(arguments: &[String]) -> Option<(&str, &[String])> {
    let (first, rest) = arguments.split_first()?;
    let name = first.rsplit('/').next()?;
    let word = rest.first().map(String::as_str);
    match (name, word) {
        ("kubelet", _) => Some(("kubelet", rest)),
        ("hyperkube", Some("kubelet")) => Some(("kubelet", &rest[1..])),
        ("k3s" | "rke2", Some("server" | "agent")) | ("k0s", Some("controller" | "worker")) => {
            Some((name, rest))
        }
        // k3s shows itself so: "/usr/local/bin/k3s server" in one argument.
        (_, None | Some("")) => {
            let mut words = first.split(' ');
            let name = words.next()?.rsplit('/').next()?;
            let known = matches!(
                (name, words.next()?),
                ("k3s" | "rke2", "server" | "agent") | ("k0s", "controller" | "worker")
            );
            known.then_some((name, rest))
        }
        // microk8s has all of Kubernetes in one process, with the kubelet's flags in a file.
        ("kubelite", _) => Some((name, rest)),
        _ => None,
    }
}

fn root_flag(program: &str, arguments: &[String]) -> Option<PathBuf> {
    let own = flag(arguments, "root-dir").and_then(absolute);
    match program {
        "kubelet" => own,
        // --kubelet-arg root-dir=/x, as often as one likes.
        "k3s" | "rke2" => passed_on(arguments, "kubelet-arg"),
        "k0s" => passed_on(arguments, "kubelet-extra-args")
            .or_else(|| flag(arguments, "kubelet-root-dir").and_then(absolute))
            .or_else(|| Some(absolute(flag(arguments, "data-dir")?)?.join("kubelet"))),
        "kubelite" => flag(arguments, "kubelet-args-file")
            .and_then(|file| text_of(Path::new(file)).ok())
            .and_then(|text| {
                let lines: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
                absolute(flag(&lines, "root-dir")?)
            }),
        _ => None,
    }
}

/// A flag for the kubelet within a flag of the program around it.
fn passed_on(arguments: &[String], name: &str) -> Option<PathBuf> {
    let all = crate::command_line::flags(arguments, name);
    let root = |value: &str| {
        value
            .split([' ', ','])
            .find_map(|word| word.trim_start_matches('-').strip_prefix("root-dir="))
            .and_then(absolute)
    };
    all.into_iter().filter_map(root).next_back()
}

/// What is printed must not break a line.
fn absolute(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let fit = path.is_absolute() && !text.contains(char::is_control);
    fit.then(|| path.components().collect())
}

/// The kubelet's file is YAML or JSON, and has had no key for the root directory so far; some
/// builds have `rootDir`. A single key at the top needs no parser.
fn in_config_file(process: &Path, file: &Path) -> Option<PathBuf> {
    // As the process sees it: a kubelet in a container has a file system of its own.
    let inside = process.join("root").join(file.strip_prefix("/").ok()?);
    // A sandbox without capabilities may not look through another process.
    let text = text_of(&inside).or_else(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => text_of(file),
        _ => Err(error),
    });
    let text = text.ok()?;
    let value = |line: &str| {
        let line = line.trim_start_matches('{').trim_end_matches(['}', ',']);
        let (key, value) = line.split_once(':')?;
        let plain = |text: &str| text.trim().trim_matches(['"', '\'']).to_owned();
        (plain(key) == "rootDir").then(|| plain(value))
    };
    // An indented key belongs to something else, except in JSON, where all are indented.
    let json = text.trim_start().starts_with('{');
    let mut lines = text
        .lines()
        .filter(|line| json || !line.starts_with([' ', '\t', '#']));
    lines.find_map(value).and_then(|path| absolute(&path))
}

fn marked(system: &Path) -> Option<KubeletRoot> {
    let below = |path: &str| system.join(path.trim_start_matches('/'));
    WELL_KNOWN.iter().find_map(|root| {
        let mark = MARKS.iter().find(|mark| below(root).join(mark).is_dir())?;
        Some(KubeletRoot {
            path: root.into(),
            why: Why::Marked(mark),
        })
    })
}

#[cfg(test)]
mod tests;
