//! Mounts that only this thread, its later threads and its children see.

use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::geteuid;

/// Mounts that end with this value.
pub struct Mounts {
    mounted: Vec<PathBuf>,
}

impl Mounts {
    /// A private mount namespace for this thread: threads and processes that it starts later are in it
    /// too, and its mounts show nowhere else. None without root.
    pub fn private() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, flags, None::<&str>).unwrap();
        Some(Self {
            mounted: Vec::new(),
        })
    }

    /// An empty file system with room for so many files and bytes.
    pub fn tmpfs(&mut self, at: &Path, files: u32, bytes: u32) {
        let options = format!("nr_inodes={files},size={bytes},mode=0755");
        mount(
            Some("tmpfs"),
            at,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options.as_str()),
        )
        .unwrap_or_else(|error| panic!("mount {}: {error}", at.display()));
        self.mounted.push(at.to_owned());
    }

    /// A directory at a second path.
    pub fn bind(&mut self, what: &Path, at: &Path) {
        let flags = MsFlags::MS_BIND;
        mount(Some(what), at, None::<&str>, flags, None::<&str>)
            .unwrap_or_else(|error| panic!("bind {}: {error}", at.display()));
        self.mounted.push(at.to_owned());
    }

    /// Makes the mount read-only or writable.
    pub fn read_only(&self, at: &Path, read_only: bool) -> nix::Result<()> {
        // The mount and not the file system: the kernel refuses that while a file is open for writing.
        let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND;
        flags.set(MsFlags::MS_RDONLY, read_only);
        mount(None::<&str>, at, None::<&str>, flags, None::<&str>)
    }

    /// Unmounts the last mount at this path, even if a process still uses it.
    pub fn unmount(&mut self, at: &Path) {
        let last = self.mounted.iter().rposition(|mounted| mounted == at);
        self.mounted
            .remove(last.unwrap_or_else(|| panic!("nothing is mounted at {}", at.display())));
        umount2(at, MntFlags::MNT_DETACH).unwrap();
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        while let Some(last) = self.mounted.pop() {
            // The directory may be gone with a mount below it; the namespace ends anyway.
            if let Err(error) = umount2(&last, MntFlags::MNT_DETACH) {
                eprintln!("unmount {}: {error}", last.display());
            }
        }
    }
}
