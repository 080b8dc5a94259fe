//! What a process in a container sees: a mount namespace and a root of its own.

use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::skipping::skipped;

/// What a program of this machine needs to run at all.
const SYSTEM: [&str; 7] = ["bin", "dev", "etc", "lib", "lib64", "proc", "usr"];

/// A container without an image: the system's own programs, and whatever of the node is mounted into
/// it. The process keeps its pid and its uid. Only root can make one.
#[derive(Debug, Clone)]
pub struct View {
    root: PathBuf,
    script: String,
    own_pids: bool,
}

impl View {
    /// An empty one. Its root is a file system in memory at `root`, which only its process sees.
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

    /// The same with a directory of the node mounted at a place of the container's.
    #[must_use]
    pub fn mounted(mut self, what: impl AsRef<Path>, at: impl AsRef<Path>) -> Self {
        let (what, at) = (what.as_ref().display(), at.as_ref().display());
        let root = self.root.display();
        let mount = format!("mkdir -p {root}{at}\nmount --rbind {what} {root}{at}");
        writeln!(self.script, "{mount}").unwrap();
        self
    }

    /// The same with a pid namespace of its own: the process sees no other, and what calls it from
    /// outside has no pid for it.
    #[must_use]
    pub fn with_own_pids(mut self) -> Self {
        self.own_pids = true;
        self
    }

    /// Runs a program in there; arguments can be added. The program's path is the container's.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = unshare();
        if self.own_pids {
            command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        }
        let script = format!("{}exec chroot {} \"$@\"", self.script, self.root.display());
        command.args(["sh", "-c", &script, "sh"]).arg(program);
        command
    }

    /// Whether this process may make one; says loudly when a test goes without it. In CI it must be
    /// so.
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
