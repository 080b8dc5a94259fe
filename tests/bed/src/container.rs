//! A container: a process with its own mount namespace and root.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skipping::skipped;

/// Directories that every program of this machine needs.
const SYSTEM: [&str; 7] = ["bin", "dev", "etc", "lib", "lib64", "proc", "usr"];

/// A container without an image: it has the system's own programs, and the node's directories that are
/// mounted into it. The process keeps its pid and its uid. Only root can create it.
#[derive(Debug, Clone)]
pub struct Container {
    root: PathBuf,
    script: String,
    own_pids: bool,
}

impl Container {
    /// An empty container. Its root is a tmpfs at `root`, which only its process sees.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        std::fs::create_dir_all(&root).unwrap();
        let script = format!("set -e\nmount -t tmpfs tmpfs {}\n", root.display());
        let empty = Self {
            root,
            script,
            own_pids: false,
        };
        SYSTEM.into_iter().fold(empty, |view, name| {
            let path = Path::new("/").join(name);
            if path.exists() {
                view.mounted(&path, &path)
            } else {
                view
            }
        })
    }

    /// The same with a directory of the node mounted at a path of the container.
    #[must_use]
    pub fn mounted(mut self, what: impl AsRef<Path>, at: impl AsRef<Path>) -> Self {
        let (what, at) = (what.as_ref().display(), at.as_ref().display());
        let root = self.root.display();
        let mount = format!("mkdir -p {root}{at}\nmount --rbind {what} {root}{at}");
        writeln!(self.script, "{mount}").unwrap();
        self
    }

    /// The same with its own pid namespace: the process sees no other process, and its callers from
    /// outside have no pid for it.
    #[must_use]
    pub fn with_own_pids(mut self) -> Self {
        self.own_pids = true;
        self
    }

    /// A command that runs a program in the container; the program's path is the container's.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = unshare();
        if self.own_pids {
            command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        }
        let script = format!("{}exec chroot {} \"$@\"", self.script, self.root.display());
        command.args(["sh", "-c", &script, "sh"]).arg(program);
        command
    }

    /// Whether this process may create one; [`skipped`] otherwise.
    pub fn can_be_had() -> bool {
        let mut tried = unshare();
        tried.args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
        let can = tried.stderr(Stdio::null()).status();
        let can = can.is_ok_and(|status| status.success());
        if !can {
            skipped("root, to make a mount namespace");
        }
        can
    }
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    command
}
