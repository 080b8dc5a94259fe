//! The volumes that the kubelet has set up on the node, from its own files.
//!
//! The kubelet writes a file vol_data.json for each volume, and removes it when the volume is unmounted.
//! Beside the file are mount points, which may be dead network file systems: they are never touched.

mod reader;
mod reading;
mod vol_data;

use std::collections::BTreeMap;

pub(crate) use self::reader::VolumeReader;
use crate::disk::name::DriverName;
use crate::os::text::enumerated;

/// Pods that a message names; the others are counted.
const MOST_NAMED: usize = 5;

/// The volumes on the node, by driver.
#[derive(Debug, Default)]
pub(crate) struct NodeVolumes {
    drivers: BTreeMap<DriverName, DriverVolumes>,
    /// Why the volumes of all drivers are not known.
    unknown: Option<String>,
}

/// The volumes of one driver.
#[derive(Debug, Default)]
struct DriverVolumes {
    /// Distinct volume handles: a volume is staged once, and several pods may use it.
    volumes: usize,
    /// The ids of the pods.
    pods: Vec<String>,
    /// Why the volumes of this driver are not all known.
    unknown: Option<String>,
}

/// Whether volumes of a driver are set up on the node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VolumeUse {
    Free,
    InUse {
        volumes: usize,
        /// The ids of the pods that have the volumes, as far as the files tell.
        pods: Vec<String>,
    },
    /// Why it is not known. Counts as in use where a driver would be taken off the node.
    NotKnown(String),
}

impl VolumeUse {
    /// The driver must stay on the node: without it, the kubelet could not unmount its volumes.
    pub(crate) fn holds(&self) -> bool {
        *self != VolumeUse::Free
    }

    /// The number of volumes, if it is known.
    pub(crate) fn count(&self) -> Option<u64> {
        match self {
            VolumeUse::Free => Some(0),
            VolumeUse::InUse { volumes, .. } => Some(*volumes as u64),
            VolumeUse::NotKnown(_) => None,
        }
    }

    /// What an operator does before the driver can leave.
    pub(crate) fn fix(&self) -> &'static str {
        match self {
            VolumeUse::Free => "",
            VolumeUse::InUse { pods, .. } if pods.is_empty() => {
                "Let the kubelet unmount the volumes first (docs/volumes.md)"
            }
            VolumeUse::InUse { .. } => "Delete the pods or drain the node first",
            VolumeUse::NotKnown(_) => {
                "Repair that first (docs/volumes.md, \"If the number is not known\")"
            }
        }
    }

    /// Why the driver must stay, in words that follow the driver's name and a colon.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            VolumeUse::Free => None,
            VolumeUse::InUse { volumes, pods } => {
                let (noun, verb) = match volumes {
                    1 => ("volume", "is"),
                    _ => ("volumes", "are"),
                };
                let pods = match pods.len() {
                    0 => " by no known pod".to_owned(),
                    1 => format!(" by pod {}", pods[0]),
                    _ => format!(" by pods {}", enumerated(pods.iter(), MOST_NAMED)),
                };
                Some(format!("{volumes} {noun} {verb} in use{pods}"))
            }
            VolumeUse::NotKnown(why) => {
                Some(format!("it is not known whether volumes are in use: {why}"))
            }
        }
    }
}

impl NodeVolumes {
    /// Nothing is known.
    pub(crate) fn not_known(why: String) -> NodeVolumes {
        NodeVolumes {
            drivers: BTreeMap::new(),
            unknown: Some(why),
        }
    }

    /// Adds what was found below another directory.
    fn add(&mut self, other: NodeVolumes) {
        for (driver, found) in other.drivers {
            let known = self.drivers.entry(driver).or_default();
            known.volumes += found.volumes;
            known.pods.extend(found.pods);
            known.unknown = known.unknown.take().or(found.unknown);
        }
        self.unknown = self.unknown.take().or(other.unknown);
    }

    pub(crate) fn of(&self, driver: &DriverName) -> VolumeUse {
        let known = self.drivers.get(driver);
        let of_driver = known.and_then(|known| known.unknown.as_ref());
        match (self.unknown.as_ref().or(of_driver), known) {
            (Some(why), _) => VolumeUse::NotKnown(why.clone()),
            (None, None) => VolumeUse::Free,
            (None, Some(known)) => VolumeUse::InUse {
                volumes: known.volumes,
                pods: known.pods.clone(),
            },
        }
    }

    /// Why the volumes of all drivers, or of one of them, are not known.
    pub(crate) fn unknown(&self) -> Option<&str> {
        let mut of_drivers = self.drivers.values();
        let of_driver = || of_drivers.find_map(|driver| driver.unknown.as_deref());
        self.unknown.as_deref().or_else(of_driver)
    }
}
