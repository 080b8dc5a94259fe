//! Memory, files, threads, reads and wake-ups of a process, from /proc.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A running process.
pub struct Footprint {
    dir: PathBuf,
}

impl Footprint {
    /// Of the process with this pid.
    pub fn of(pid: u32) -> Self {
        Self {
            dir: Path::new("/proc").join(pid.to_string()),
        }
    }

    /// Resident memory in KiB.
    pub fn rss_kb(&self) -> u64 {
        field(&self.status(), "VmRSS:")
    }

    /// The resident memory that belongs to no file: heap and stacks, in KiB.
    pub fn anonymous_kb(&self) -> u64 {
        field(&self.status(), "RssAnon:")
    }

    /// Threads of the process.
    pub fn thread_count(&self) -> u64 {
        field(&self.status(), "Threads:")
    }

    /// Open file descriptors.
    pub fn fd_count(&self) -> usize {
        fs::read_dir(self.dir.join("fd")).unwrap().count()
    }

    /// Its sockets, by inode: a new connection is another socket.
    pub fn sockets(&self) -> BTreeSet<String> {
        let files = fs::read_dir(self.dir.join("fd")).unwrap();
        let targets = files.filter_map(|file| fs::read_link(file.unwrap().path()).ok());
        let names = targets.map(|target| target.display().to_string());
        names.filter(|name| name.starts_with("socket:")).collect()
    }

    /// How often it has read from a file or a socket so far.
    pub fn reads(&self) -> u64 {
        field(&self.dir.join("io"), "syscr:")
    }

    /// How often its threads have gone to sleep so far, which equals their wake-ups.
    pub fn wakeups(&self) -> u64 {
        let tasks = fs::read_dir(self.dir.join("task")).unwrap();
        tasks
            .map(|task| task.unwrap().path().join("status"))
            .map(|status| field(&status, "voluntary_ctxt_switches:"))
            .sum()
    }

    fn status(&self) -> PathBuf {
        self.dir.join("status")
    }
}

fn field(file: &Path, key: &str) -> u64 {
    let fields = fs::read_to_string(file).unwrap();
    let line = fields.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.unwrap().parse().unwrap()
}
