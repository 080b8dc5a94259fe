//! One look at the kubelet's files.
//!
//! Directories are opened step by step, so that no link leads out of the kubelet's tree and no mount
//! hides a part of it unseen. Mount points beside the files are never touched: neither listed nor opened,
//! nor is their state read.

mod directory;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use self::directory::{Directory, unreadable};
use super::vol_data::{self, VOL_DATA, VolData, VolDataError};
use super::{DriverVolumes, NodeVolumes};
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::os::text::printable;

/// Below the directory of a pod: its volumes with a file system.
const POD_VOLUMES: [&str; 2] = ["volumes", "kubernetes.io~csi"];
/// Below the directory of a pod: an entry with the name of each block volume.
const POD_DEVICES: [&str; 2] = ["volumeDevices", "kubernetes.io~csi"];
/// The staged volumes, below the root directory.
const STAGED: &str = "plugins/kubernetes.io/csi";
/// Of the staged volumes, those of a kubelet before 1.24. A later kubelet has a directory for each driver.
const OF_NO_DRIVER: &str = "pv";
/// Of the staged volumes, the block volumes. Their files are one directory further down.
const BLOCK: &str = "volumeDevices";
/// The pauses before further looks at a file that is empty or cut off: the kubelet writes it in place. All
/// files of a look share them, so that a file that stays empty costs no more than this.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(15),
    Duration::from_millis(40),
    Duration::from_millis(90),
];

/// How much a look may read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) files: usize,
    /// Names in all directories.
    pub(super) names: usize,
    /// Of all files.
    pub(super) bytes: usize,
    /// The look is given up between two steps.
    pub(super) time: Duration,
}

/// A thousand files are the volumes of 250 pods. No node has as many as this.
const NODE: Limits = Limits {
    files: 20_000,
    names: 200_000,
    bytes: 16 << 20,
    time: Duration::from_secs(10),
};

/// Why a part of the look failed.
#[derive(Debug)]
enum Fault {
    /// A file or a directory. The others may tell more.
    Unreadable(String),
    /// A limit is reached.
    GivenUp(String),
}

/// The volumes of one driver as they are found.
#[derive(Debug, Default)]
struct Found {
    handles: BTreeSet<String>,
    pods: BTreeSet<String>,
    unknown: Option<String>,
}

/// A look while it goes on.
pub(super) struct Reading<'a> {
    reach: &'a Reach,
    limits: Limits,
    begun: Instant,
    found: BTreeMap<DriverName, Found>,
    /// The pods that use a block volume, by the name of its persistent volume.
    devices: BTreeMap<OsString, BTreeSet<String>>,
    files: usize,
    names: usize,
    bytes: usize,
    /// Those that are left.
    pauses: &'static [Duration],
}

impl Reading<'_> {
    fn new(reach: &Reach, limits: Limits) -> Reading<'_> {
        Reading {
            reach,
            limits,
            begun: Instant::now(),
            found: BTreeMap::new(),
            devices: BTreeMap::new(),
            files: 0,
            names: 0,
            bytes: 0,
            pauses: &PAUSES,
        }
    }

    /// Reads every file of a volume below `root`, the kubelet's root directory.
    pub(super) fn of(root: &Path, reach: &Reach) -> NodeVolumes {
        Reading::within(root, reach, NODE)
    }

    fn within(root: &Path, reach: &Reach, limits: Limits) -> NodeVolumes {
        let mut reading = Reading::new(reach, limits);
        let unknown = match reading.read(root) {
            Ok(()) => None,
            Err(Fault::Unreadable(why) | Fault::GivenUp(why)) => Some(why),
        };
        let drivers = reading.found.into_iter();
        NodeVolumes {
            drivers: drivers.map(|(name, found)| (name, found.into())).collect(),
            unknown,
        }
    }

    fn read(&mut self, root: &Path) -> Result<(), Fault> {
        // A registrar in a pod that has only plugins_registry, in place of node-driver-registrar.
        let Some(pods) = self.enter(&root.join("pods"))? else {
            return Ok(());
        };
        for pod in self.list(&pods)? {
            if let Some(directory) = self.open(&pods, &pod)? {
                self.read_pod(&directory, &printable(&pod.to_string_lossy()))?;
            }
        }
        let Some(staged) = self.enter(&root.join(STAGED))? else {
            return Ok(());
        };
        for group in self.list(&staged)? {
            // The directory's name tells the driver where its files do not.
            let driver = match group.to_str() {
                None | Some(OF_NO_DRIVER | BLOCK) => None,
                Some(name) => DriverName::parse(name).ok(),
            };
            match (self.read_staged(&staged, &group), driver) {
                (Err(Fault::Unreadable(why)), Some(driver)) => self.not_known(driver, why),
                (read, _) => read?,
            }
        }
        Ok(())
    }

    fn read_pod(&mut self, pod: &Directory, id: &str) -> Result<(), Fault> {
        if let Some(volumes) = self.descend(pod, POD_VOLUMES)? {
            for volume in self.list(&volumes)? {
                if let Some(volume) = self.open(&volumes, &volume)? {
                    self.read_file(&volume, &BTreeSet::from([id.to_owned()]))?;
                }
            }
        }
        // The entries lead to devices: only their names are read.
        if let Some(devices) = self.descend(pod, POD_DEVICES)? {
            for volume in self.list(&devices)? {
                let pods = self.devices.entry(volume).or_default();
                pods.insert(id.to_owned());
            }
        }
        Ok(())
    }

    fn read_staged(&mut self, staged: &Directory, group: &OsStr) -> Result<(), Fault> {
        let Some(directory) = self.open(staged, group)? else {
            return Ok(());
        };
        for name in self.list(&directory)? {
            let Some(volume) = self.open(&directory, &name)? else {
                continue;
            };
            if group != BLOCK {
                self.read_file(&volume, &BTreeSet::new())?;
            } else if let Some(data) = self.open(&volume, OsStr::new("data"))? {
                let pods = self.devices.get(&name).cloned().unwrap_or_default();
                self.read_file(&data, &pods)?;
            }
        }
        Ok(())
    }

    /// Opens directories below each other; none if one of them does not exist.
    fn descend<const N: usize>(
        &self,
        above: &Directory,
        names: [&str; N],
    ) -> Result<Option<Directory>, Fault> {
        let mut reached: Option<Directory> = None;
        for name in names {
            let above = reached.as_ref().unwrap_or(above);
            let Some(below) = self.open(above, OsStr::new(name))? else {
                return Ok(None);
            };
            reached = Some(below);
        }
        Ok(reached)
    }

    fn enter(&self, path: &Path) -> Result<Option<Directory>, Fault> {
        Directory::enter(path, self.reach).map_err(Fault::Unreadable)
    }

    fn open(&self, above: &Directory, name: &OsStr) -> Result<Option<Directory>, Fault> {
        self.check_time()?;
        above.open(name).map_err(Fault::Unreadable)
    }

    fn list(&mut self, directory: &Directory) -> Result<Vec<OsString>, Fault> {
        let most = self.limits.names;
        let listed = directory.names(most - self.names);
        let Some(names) = listed.map_err(Fault::Unreadable)? else {
            return Err(Fault::GivenUp(format!(
                "the kubelet's directories have more than {most} names"
            )));
        };
        self.names += names.len();
        Ok(names)
    }

    fn read_file(&mut self, directory: &Directory, pods: &BTreeSet<String>) -> Result<(), Fault> {
        self.files += 1;
        let Limits { files, bytes, .. } = self.limits;
        let data = self.vol_data(directory);
        if self.files > files {
            let why = format!("the node has more than {files} files of volumes");
            return Err(Fault::GivenUp(why));
        }
        if self.bytes > bytes {
            let why = format!("the files of the volumes have more than {bytes} bytes");
            return Err(Fault::GivenUp(why));
        }
        match data {
            Ok(Some(data)) => {
                let found = self.found.entry(data.driver).or_default();
                found.handles.insert(data.handle);
                found.pods.extend(pods.iter().cloned());
            }
            Ok(None) => {}
            Err(error) => {
                let why = unreadable(&directory.path().join(VOL_DATA), &error);
                match error.driver() {
                    Some(driver) => self.not_known(driver.clone(), why),
                    None => return Err(Fault::Unreadable(why)),
                }
            }
        }
        Ok(())
    }

    /// The file of a volume; none if it does not exist: the kubelet has not written it yet, or has just
    /// removed it.
    fn vol_data(&mut self, directory: &Directory) -> Result<Option<VolData>, VolDataError> {
        loop {
            let Some(file) = directory.open_file(VOL_DATA)? else {
                return Ok(None);
            };
            let text = vol_data::text(file)?;
            self.bytes += text.len();
            match (VolData::parse(&text), self.pauses) {
                (Err(VolDataError::Cut), [pause, later @ ..]) => {
                    thread::sleep(*pause);
                    self.pauses = later;
                }
                (parsed, _) => return parsed.map(Some),
            }
        }
    }

    fn check_time(&self) -> Result<(), Fault> {
        let longest = self.limits.time;
        match self.begun.elapsed() > longest {
            true => Err(Fault::GivenUp(format!(
                "the kubelet's files were not read within {longest:?}"
            ))),
            false => Ok(()),
        }
    }

    /// The volumes of this driver are not all known.
    fn not_known(&mut self, driver: DriverName, why: String) {
        self.found.entry(driver).or_default().unknown = Some(why);
    }
}

impl From<Found> for DriverVolumes {
    fn from(found: Found) -> DriverVolumes {
        DriverVolumes {
            volumes: found.handles.len(),
            pods: found.pods.into_iter().collect(),
            unknown: found.unknown,
        }
    }
}

#[cfg(test)]
mod tests;
