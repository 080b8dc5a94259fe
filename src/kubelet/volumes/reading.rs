//! One look at the kubelet's files.
//!
//! Directories are opened step by step, so that no link leads out of the kubelet's tree, and a directory
//! on which a file system is mounted that may hang is not opened at all.

use std::collections::{BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, FileType, Mode, OFlags, openat};
use serde::Deserialize;

use super::NodeVolumes;
use crate::disk::directory::if_found;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::os::text::printable;

/// The file of a volume.
const VOL_DATA: &str = "vol_data.json";
/// Below the directory of a pod.
const POD_VOLUMES: [&str; 2] = ["volumes", "kubernetes.io~csi"];
/// The staged volumes, below the root directory.
const STAGED: &str = "plugins/kubernetes.io/csi";
/// The block volumes have their files one directory further down.
const BLOCK: &str = "volumeDevices";

/// Some 250 pods have a thousand files. A node with more than this is not a node.
const MOST_FILES: usize = 20_000;
/// The kubelet writes some 300 bytes.
const LARGEST: u64 = 64 * 1024;
/// A look that takes longer is given up between two files.
const LONGEST: Duration = Duration::from_secs(10);

/// What the kubelet writes, as far as it is needed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct VolData {
    driver_name: String,
    volume_handle: String,
}

/// A directory of the kubelet, open.
struct Directory {
    fd: OwnedFd,
    path: PathBuf,
}

/// The look while it goes on.
pub(super) struct Reading {
    volumes: NodeVolumes,
    /// Mount points below the root directory that may hang.
    mounts: HashSet<PathBuf>,
    until: Instant,
    files: usize,
}

impl Reading {
    /// Reads every file of a volume below `root`, the kubelet's root directory.
    pub(super) fn of(root: &Path, reach: &Reach) -> NodeVolumes {
        // Mount points have no links in their paths.
        let root = match if_found(root.canonicalize()) {
            Ok(Some(root)) => root,
            Ok(None) => return NodeVolumes::default(),
            Err(error) => return NodeVolumes::not_known(unreadable(root, &error)),
        };
        let mut reading = Reading {
            volumes: NodeVolumes::default(),
            mounts: reach.mounts_below(&root),
            until: Instant::now() + LONGEST,
            files: 0,
        };
        if let Err(why) = reading.read(&root) {
            reading.volumes.unknown = Some(why);
        }
        reading.volumes
    }

    fn read(&mut self, root: &Path) -> Result<(), String> {
        let Some(pods) = self.open_path(&root.join("pods"))? else {
            return Ok(());
        };
        for pod in subdirectories(&pods)? {
            self.read_pod(&pods, &pod)?;
        }
        let Some(staged) = self.open_path(&root.join(STAGED))? else {
            return Ok(());
        };
        for group in subdirectories(&staged)? {
            let Some(directory) = self.open(&staged, &group)? else {
                continue;
            };
            let is_block = group == BLOCK;
            for volume in subdirectories(&directory)? {
                let Some(volume) = self.open(&directory, &volume)? else {
                    continue;
                };
                let data = match is_block {
                    true => self.open(&volume, OsStr::new("data"))?,
                    false => Some(volume),
                };
                if let Some(data) = data {
                    self.read_file(&data, None)?;
                }
            }
        }
        Ok(())
    }

    fn read_pod(&mut self, pods: &Directory, pod: &OsStr) -> Result<(), String> {
        let Some(mut directory) = self.open(pods, pod)? else {
            return Ok(());
        };
        for name in POD_VOLUMES {
            let Some(below) = self.open(&directory, OsStr::new(name))? else {
                return Ok(());
            };
            directory = below;
        }
        let pod = printable(&pod.to_string_lossy());
        for volume in subdirectories(&directory)? {
            if let Some(volume) = self.open(&directory, &volume)? {
                self.read_file(&volume, Some(&pod))?;
            }
        }
        Ok(())
    }

    /// Opens a directory of the kubelet's own, to which a link may lead.
    fn open_path(&self, path: &Path) -> Result<Option<Directory>, String> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from);
        let fd = if_found(opened).map_err(|error| unreadable(path, &error))?;
        let path = path.to_owned();
        Ok(fd.map(|fd| Directory { fd, path }))
    }

    /// Opens a directory in another; none if it was removed meanwhile.
    fn open(&self, directory: &Directory, name: &OsStr) -> Result<Option<Directory>, String> {
        let path = directory.path.join(name);
        if self.mounts.contains(&path) {
            return Err(format!(
                "{} is on a file system that may not answer",
                path.display()
            ));
        }
        if Instant::now() > self.until {
            return Err(format!("the files were not read within {LONGEST:?}"));
        }
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(&directory.fd, name, flags, Mode::empty()).map_err(io::Error::from);
        let fd = if_found(opened).map_err(|error| unreadable(&path, &error))?;
        Ok(fd.map(|fd| Directory { fd, path }))
    }

    fn read_file(&mut self, directory: &Directory, pod: Option<&str>) -> Result<(), String> {
        self.files += 1;
        if self.files > MOST_FILES {
            return Err(format!("the node has more than {MOST_FILES} volumes"));
        }
        let path = directory.path.join(VOL_DATA);
        let data = vol_data(&directory.fd).map_err(|error| unreadable(&path, &error))?;
        let Some(data) = data else { return Ok(()) };
        // The volume of a driver whose name breaks the rules is none of ours.
        let Ok(name) = DriverName::parse(&data.driver_name) else {
            return Ok(());
        };
        let driver = self.volumes.drivers.entry(name).or_default();
        driver.handles.insert(data.volume_handle);
        driver.pods.extend(pod.map(str::to_owned));
        Ok(())
    }
}

/// The names of the subdirectories.
fn subdirectories(directory: &Directory) -> Result<BTreeSet<std::ffi::OsString>, String> {
    let failed = |error: rustix::io::Errno| unreadable(&directory.path, &error.into());
    let mut names = BTreeSet::new();
    for entry in Dir::read_from(&directory.fd).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        let is_kept = !matches!(name, b"." | b"..") && entry.file_type() != FileType::RegularFile;
        if is_kept {
            names.insert(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// The file of a volume; none if it was removed meanwhile.
fn vol_data(directory: &OwnedFd) -> io::Result<Option<VolData>> {
    // Does not follow a link, and does not wait for a pipe without a writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(directory, VOL_DATA, flags, Mode::empty()).map_err(io::Error::from);
    let Some(file) = if_found(opened)?.map(File::from) else {
        return Ok(None);
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::Error::other("it is too large"));
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

fn unreadable(path: &Path, error: &io::Error) -> String {
    let path = path.to_string_lossy();
    printable(&format!("cannot read {path}: {error}"))
}
