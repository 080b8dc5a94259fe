//! The kubelets that run on this node, by their command lines, for the doctor and `verify`.
//!
//! Root in a container is uid 0 as well, and may call itself whatever it likes. It cannot choose its mounts:
//! a container has a mount namespace and a root of its own, even if it shares our processes (hostPID).

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::root::{DEFAULT, OF_K0S, OF_MICROK8S};
use crate::disk::regular_file;
use crate::os::go_flags::{flag, flags};
use crate::os::peer::is_trusted;

pub(super) const KUBELET: &str = "kubelet";
const ROOT_DIR: &str = "root-dir";

/// The longest part of a file from a command line that is read.
const LONGEST_FILE: u64 = 1 << 20;

/// A process that calls itself a kubelet, or contains one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletProcess {
    pub(crate) pid: u32,
    /// The name of the program, such as kubelet or k3s.
    pub(crate) program: String,
    pub(super) arguments: Vec<String>,
    /// The process has the mounts of the node itself. Any other process may be in a container.
    pub(crate) is_believed: bool,
}

/// The processes that call themselves kubelets: those that are believed first, then those that name their root
/// directory, then a kubelet before a program that contains one.
pub(crate) fn running(proc: &Path) -> Vec<KubeletProcess> {
    let roots = ["1", "self"].map(|process| root_mounts(&proc.join(process)));
    let entries = fs::read_dir(proc).inspect_err(|error| {
        tracing::warn!(%error, directory = %proc.display(), "cannot look for a running kubelet");
    });
    let pids = entries
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found: Vec<KubeletProcess> = pids
        .filter_map(|pid| KubeletProcess::of(proc, pid, &roots))
        .collect();
    found.sort_by_key(|kubelet| {
        let is_named = kubelet.named_root().is_some();
        let is_wrapper = kubelet.program != KUBELET;
        (!kubelet.is_believed, !is_named, is_wrapper, kubelet.pid)
    });
    found
}

impl KubeletProcess {
    /// The process with this pid, if it is a process of root or of our own user. Any other user could call a
    /// program "kubelet", and name any root and any file on its command line.
    fn of(proc: &Path, pid: u32, roots: &[Vec<u64>]) -> Option<KubeletProcess> {
        let process = proc.join(pid.to_string());
        if !is_privileged(&process) {
            return None;
        }
        let line = command_line(&process)?;
        let (program, arguments) = program(&line)?;
        Some(KubeletProcess {
            pid,
            program: program.to_owned(),
            arguments: arguments.to_vec(),
            is_believed: is_of_node(&process, roots),
        })
    }

    /// The root directory that the process names, or else the default of its program.
    pub(crate) fn root(&self) -> PathBuf {
        let default = match self.program.as_str() {
            "k0s" => OF_K0S,
            "kubelite" => OF_MICROK8S,
            _ => DEFAULT,
        };
        self.named_root().unwrap_or_else(|| default.into())
    }

    /// The root directory that the process names on its command line.
    pub(crate) fn named_root(&self) -> Option<PathBuf> {
        let arguments = &self.arguments;
        match self.program.as_str() {
            // --kubelet-arg root-dir=/x, any number of times.
            "k3s" | "rke2" => self.passed_on("kubelet-arg", ROOT_DIR).and_then(absolute),
            "k0s" => self
                .passed_on("kubelet-extra-args", ROOT_DIR)
                .and_then(absolute)
                .or_else(|| path_flag(arguments, "kubelet-root-dir"))
                .or_else(|| Some(path_flag(arguments, "data-dir")?.join(KUBELET))),
            "kubelite" => path_flag(&self.arguments_file()?, ROOT_DIR),
            _ => path_flag(arguments, ROOT_DIR),
        }
    }

    /// The kubelet's flags of kubelite, which are in a file. To open a file that an untrusted process chose may
    /// take forever.
    pub(super) fn arguments_file(&self) -> Option<Vec<String>> {
        if !self.is_believed {
            return None;
        }
        let file = flag(&self.arguments, "kubelet-args-file")?;
        let text = text_of(Path::new(file)).ok()?;
        Some(text.split_whitespace().map(str::to_owned).collect())
    }

    /// The value of a flag for the kubelet in a flag of the program that contains it.
    pub(super) fn passed_on(&self, name: &str, flag: &str) -> Option<&str> {
        fn value<'a>(words: &'a str, flag: &str) -> Option<&'a str> {
            let words = words.split([' ', ',']);
            let mut words = words.map(|word| word.trim_start_matches('-'));
            words.find_map(|word| word.strip_prefix(flag)?.strip_prefix('='))
        }
        let values = flags(&self.arguments, name).into_iter();
        values.filter_map(|words| value(words, flag)).next_back()
    }
}

/// The process runs on the node itself.
fn is_of_node(process: &Path, roots: &[Vec<u64>]) -> bool {
    let mounts = root_mounts(process);
    !mounts.is_empty()
        && roots.contains(&mounts)
        && shares_our_pids(process)
        && is_program_roots(process)
}

/// The mounts at / for a process. A mount belongs to a single namespace, so the same mounts mean
/// the same namespace and the same root; a process with another root has none of them. Unlike
/// /proc/PID/root and /proc/PID/ns, this can be read without capabilities, as under verify's unit.
fn root_mounts(process: &Path) -> Vec<u64> {
    // A process that has ended has no mounts.
    let table = fs::read_to_string(process.join("mountinfo")).unwrap_or_default();
    let at_root = |line: &str| {
        let mut fields = line.split(' ');
        let number = fields.next()?.parse().ok()?;
        (fields.nth(3)? == "/").then_some(number)
    };
    table.lines().filter_map(at_root).collect()
}

/// The process has no other pid than the pid that we see. A kernel before 4.1 does not show that.
fn shares_our_pids(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    pids.is_none_or(|pids| pids.split_ascii_whitespace().count() == 1)
}

/// Only root can change the program. Without capabilities we cannot check that.
fn is_program_roots(process: &Path) -> bool {
    match fs::metadata(process.join("exe")) {
        Ok(found) => {
            let group = found.gid() != 0 && found.mode() & 0o020 != 0;
            is_trusted(found.uid()) && !group && found.mode() & 0o002 == 0
        }
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

/// A process of root or of our own user, by the uids of the process: root may own its directory in
/// /proc although another user runs it.
fn is_privileged(process: &Path) -> bool {
    let status = fs::read_to_string(process.join("status")).unwrap_or_default();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| {
        let mut users = users.split_ascii_whitespace();
        users.all(|user| user.parse().is_ok_and(is_trusted))
    })
}

/// The command line of a process. The process may have ended, and a kernel thread has none.
fn command_line(process: &Path) -> Option<Vec<String>> {
    let line = fs::read(process.join("cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line);
    Some(line.split('\0').map(str::to_owned).collect())
}

/// The name of the program that contains a kubelet, and its arguments. `hyperkube kubelet` contains
/// a kubelet, `k3s kubectl` does not.
fn program(arguments: &[String]) -> Option<(&str, &[String])> {
    let (first, rest) = arguments.split_first()?;
    let name = first.rsplit('/').next()?;
    let word = rest.first().map(String::as_str);
    match (name, word) {
        (KUBELET, _) => Some((KUBELET, rest)),
        ("hyperkube", Some(KUBELET)) => Some((KUBELET, &rest[1..])),
        // k3s sets its command line to a single argument: "/usr/local/bin/k3s server".
        (_, None | Some("")) => {
            let mut words = first.split(' ');
            let name = words.next()?.rsplit('/').next()?;
            is_wrapper(name, words.next()?).then_some((name, rest))
        }
        // microk8s runs all of Kubernetes in one process, with the kubelet's flags in a file.
        ("kubelite", _) => Some((name, rest)),
        (_, Some(word)) => is_wrapper(name, word).then_some((name, rest)),
    }
}

fn is_wrapper(name: &str, word: &str) -> bool {
    match name {
        "k3s" | "rke2" => matches!(word, "server" | "agent"),
        "k0s" => matches!(word, "controller" | "worker"),
        _ => false,
    }
}

pub(super) fn path_flag(arguments: &[String], name: &str) -> Option<PathBuf> {
    absolute(flag(arguments, name)?)
}

/// The path is printed, so it must not contain line breaks.
pub(super) fn absolute(text: &str) -> Option<PathBuf> {
    let path = Path::new(text);
    let fit = path.is_absolute() && !text.contains(char::is_control);
    fit.then(|| path.components().collect())
}

/// The text of a file from a command line. A file that blocks or does not end is not read.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = regular_file::open(path)?;
    file.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
pub(super) mod tests;
