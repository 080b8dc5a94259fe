//! A mount whose server can hang: FUSE by bindfs, which the test stops.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::Uid;

use crate::scene::SOON;
use crate::{Process, eventually, skipped};

/// Mounted until it is dropped. A process that touches a path below it while it hangs, hangs too.
pub struct HangingMount {
    server: Process,
    point: PathBuf,
}

impl HangingMount {
    /// Creates `point` and mounts an empty directory over it; [`skipped`] where this machine cannot.
    ///
    /// # Panics
    /// When nothing is mounted although it could be.
    #[must_use]
    pub fn over(point: impl Into<PathBuf>) -> Option<Self> {
        let point = point.into();
        let bindfs = Command::new("bindfs")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if !Uid::effective().is_root() || bindfs.is_err() || !Path::new("/dev/fuse").exists() {
            skipped("root, bindfs and FUSE, to make a file system that hangs");
            return None;
        }
        let name = point.file_name().expect("a path with a name");
        let served = point.with_file_name(format!(".served-{}", name.to_string_lossy()));
        fs::create_dir_all(&point).unwrap();
        fs::create_dir_all(&served).unwrap();
        let mut bindfs = Command::new("bindfs");
        let server = Process::start(bindfs.arg("-f").args([&served, &point]));
        let mount = HangingMount { server, point };
        eventually("it is mounted", SOON, || mount.is_mounted());
        Some(mount)
    }

    fn is_mounted(&self) -> bool {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let point = self.point.to_string_lossy();
        table
            .lines()
            .any(|line| line.split(' ').nth(4) == Some(&*point))
    }

    /// From now on every process that touches the mount waits, until the value is dropped.
    #[must_use]
    pub fn hang(&self) -> Hang<'_> {
        self.server.signal(Signal::SIGSTOP);
        // A thread that has not stopped yet may take a request, and even kill -9 does not end a process
        // that waits for the answer to it.
        eventually("every thread of the server has stopped", SOON, || {
            let tasks = fs::read_dir(format!("/proc/{}/task", self.server.pid())).unwrap();
            tasks.flatten().all(|task| {
                let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
                stat.rsplit(") ")
                    .next()
                    .is_some_and(|rest| rest.starts_with('T'))
            })
        });
        Hang(self)
    }
}

/// Until it is dropped, no process gets an answer.
pub struct Hang<'a>(&'a HangingMount);

impl Drop for Hang<'_> {
    fn drop(&mut self) {
        self.0.server.signal(Signal::SIGCONT);
    }
}

impl Drop for HangingMount {
    fn drop(&mut self) {
        // When the server has ended, the kernel fails every call that waits for it.
        self.server.end();
        let unmounted = Command::new("umount")
            .arg("--lazy")
            .arg(&self.point)
            .status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("cannot unmount {}", self.point.display());
        }
    }
}
