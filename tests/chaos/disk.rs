//! The node's file systems, each of which can be full or read-only.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use bed::{Mounts, Node};

/// Little room: a disk has to be full soon.
const FILES: u32 = 9000;
const BYTES: u32 = 4 << 20;
const FILLER: &str = "filler";

/// One file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    /// plugins_dir and registry_dir.
    Storage,
    Kubelet,
    /// The runtime directory.
    Run,
}

impl Disk {
    pub(crate) const ALL: [Disk; 3] = [Disk::Storage, Disk::Kubelet, Disk::Run];

    pub(crate) fn path(self, node: &Node) -> PathBuf {
        match self {
            Disk::Storage => node.root().join("vdata"),
            Disk::Kubelet => node.kubelet_root(),
            Disk::Run => node.runtime_dir(),
        }
    }

    /// Mounts it as a separate file system.
    pub(crate) fn mount(self, node: &Node, mounts: &mut Mounts) {
        let path = self.path(node);
        fs::create_dir_all(&path).unwrap();
        mounts.tmpfs(&path, FILES, BYTES);
    }

    /// Uses up all free bytes and all free inodes.
    pub(crate) fn fill(self, node: &Node) {
        let filler = self.path(node).join(FILLER);
        let full = File::create(&filler)
            .and_then(|mut file| fill(&mut file))
            .and_then(|()| crowd(&self.path(node), FILLER, usize::MAX));
        match full {
            Ok(()) => panic!("{} is never full", filler.display()),
            Err(error) if is_in_the_way(&error) => {}
            Err(error) => panic!("fill {}: {error}", filler.display()),
        }
    }

    /// Frees everything, and makes it writable.
    pub(crate) fn free(self, node: &Node, mounts: &Mounts) {
        let path = self.path(node);
        mounts.read_only(&path, false).unwrap();
        disperse(&path, FILLER);
    }
}

fn fill(file: &mut File) -> io::Result<()> {
    let block = [0; 4096];
    loop {
        match file.write_all(&block) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Creates so many empty files with this prefix.
pub(crate) fn crowd(directory: &Path, name: &str, count: usize) -> io::Result<()> {
    for number in 0..count {
        File::create(directory.join(format!("{name}-{number}")))?;
    }
    Ok(())
}

/// Removes every file with this prefix; the directory may be gone.
pub(crate) fn disperse(directory: &Path, name: &str) {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => panic!("read {}: {error}", directory.display()),
    };
    for entry in entries.map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with(name) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

/// A fault may prevent another fault.
pub(crate) fn is_in_the_way(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AddrInUse, AlreadyExists, ConnectionRefused, DirectoryNotEmpty, IsADirectory,
        NotADirectory, NotFound, ReadOnlyFilesystem, ResourceBusy, StorageFull,
    };
    matches!(
        error.kind(),
        AddrInUse
            | AlreadyExists
            | ConnectionRefused
            | DirectoryNotEmpty
            | IsADirectory
            | NotADirectory
            | NotFound
            | ReadOnlyFilesystem
            | ResourceBusy
            | StorageFull
    )
}

/// Returns nothing where another fault prevents it.
#[track_caller]
pub(crate) fn attempt<T>(result: io::Result<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(error) if is_in_the_way(&error) => None,
        Err(error) => panic!("{error}"),
    }
}
