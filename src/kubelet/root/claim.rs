//! The claim of a running process about the root directory of its kubelet.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::{DEFAULT, Host, KubeletRoot, RootSource, Running};
use crate::disk::regular_file;
use crate::os::go_flags::{flag, flags};
use crate::os::peer::is_trusted;

const ROOT_DIR: &str = "root-dir";

/// The longest part of a file from a command line that is read.
const LONGEST_FILE: u64 = 1 << 20;

/// Programs that contain a kubelet, and its root directory without a flag.
const WRAPPERS: [(&str, &str); 4] = [
    ("k3s", DEFAULT),
    ("rke2", DEFAULT),
    ("k0s", "/var/lib/k0s/kubelet"),
    ("kubelite", "/var/snap/microk8s/common/var/lib/kubelet"),
];

impl Running {
    /// The process with this pid, if it calls itself a kubelet, or contains one, and is a process of
    /// root or of our own user. Any other user could call a program "kubelet", and name any root and
    /// any file on its command line.
    pub(super) fn of(host: &Host, pid: u32) -> Option<Running> {
        let process = host.proc.join(pid.to_string());
        if !is_privileged(&process) {
            return None;
        }
        let arguments = command_line(&process)?;
        let (program, arguments) = program(&arguments)?;
        let is_believed = host.believes(pid);
        let program = program.to_owned();
        let (path, why) = if let Some(path) = root_flag(&program, arguments, is_believed) {
            (path, RootSource::Flag { pid, program })
        // To open a file that an untrusted process chose may take forever.
        } else if is_believed
            && program == "kubelet"
            && let Some(file) = path_flag(arguments, "config")
            && let Some(path) = in_config_file(&process, &file)
        {
            (path, RootSource::ConfigFile { pid, file })
        } else if let Some((_, root)) = WRAPPERS.iter().find(|(name, _)| *name == program) {
            (root.into(), RootSource::Wrapper { pid, program })
        } else {
            (DEFAULT.into(), RootSource::Kubelet { pid })
        };
        let root = KubeletRoot { path, why };
        Some(Running {
            pid,
            root,
            is_believed,
        })
    }
}

/// The command line of a process. The process may have ended, and a kernel thread has none.
pub(super) fn command_line(process: &Path) -> Option<Vec<String>> {
    let line = fs::read(process.join("cmdline")).ok()?;
    let line = String::from_utf8_lossy(&line);
    Some(line.split('\0').map(str::to_owned).collect())
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

/// The text of a file from a command line. A file that blocks or does not end is not read.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = regular_file::open(path)?;
    file.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

/// The name of the program that contains a kubelet, and its arguments. `hyperkube kubelet` contains
/// a kubelet, `k3s kubectl` does not.
pub(super) fn program(arguments: &[String]) -> Option<(&str, &[String])> {
    let (first, rest) = arguments.split_first()?;
    let name = first.rsplit('/').next()?;
    let word = rest.first().map(String::as_str);
    match (name, word) {
        ("kubelet", _) => Some(("kubelet", rest)),
        ("hyperkube", Some("kubelet")) => Some(("kubelet", &rest[1..])),
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

fn root_flag(program: &str, arguments: &[String], reads_files: bool) -> Option<PathBuf> {
    match program {
        "kubelet" => path_flag(arguments, ROOT_DIR),
        // --kubelet-arg root-dir=/x, any number of times.
        "k3s" | "rke2" => passed_on(arguments, "kubelet-arg", ROOT_DIR).and_then(absolute),
        "k0s" => passed_on(arguments, "kubelet-extra-args", ROOT_DIR)
            .and_then(absolute)
            .or_else(|| path_flag(arguments, "kubelet-root-dir"))
            .or_else(|| Some(path_flag(arguments, "data-dir")?.join("kubelet"))),
        "kubelite" if reads_files => path_flag(&arguments_file(arguments)?, ROOT_DIR),
        _ => None,
    }
}

/// The kubelet's flags of kubelite, which are in a file.
pub(super) fn arguments_file(arguments: &[String]) -> Option<Vec<String>> {
    let text = text_of(Path::new(flag(arguments, "kubelet-args-file")?)).ok()?;
    Some(text.split_whitespace().map(str::to_owned).collect())
}

/// The value of a flag for the kubelet in a flag of the program that contains it.
pub(super) fn passed_on<'a>(arguments: &'a [String], name: &str, flag: &str) -> Option<&'a str> {
    let value = |words: &'a str| {
        let mut words = words
            .split([' ', ','])
            .map(|word| word.trim_start_matches('-'));
        words.find_map(|word| word.strip_prefix(flag)?.strip_prefix('='))
    };
    let values = flags(arguments, name).into_iter();
    values.filter_map(value).next_back()
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

/// The kubelet's file is YAML or JSON. Kubernetes has no key for the root directory in it so far;
/// some builds have `rootDir`. A single key at the top level needs no parser.
fn in_config_file(process: &Path, file: &Path) -> Option<PathBuf> {
    // The path as the process sees it: a kubelet in a container has a file system of its own.
    let inside = process.join("root").join(file.strip_prefix("/").ok()?);
    // A sandbox without capabilities cannot use /proc/PID/root of another process.
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
    // An indented key belongs to another object, except in JSON, where all keys are indented.
    let json = text.trim_start().starts_with('{');
    let mut lines = text
        .lines()
        .filter(|line| json || !line.starts_with([' ', '\t', '#']));
    lines.find_map(value).and_then(|path| absolute(&path))
}
