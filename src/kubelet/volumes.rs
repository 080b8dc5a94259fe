//! The volumes that the kubelet has set up on the node, from its own files.
//!
//! The kubelet writes a file vol_data.json for each volume, and removes it when the volume is unmounted.
//! Beside the file are mount points, which may be dead network file systems: they are never touched.

mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use self::reading::Reading;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::os::text::enumerated;

/// How long an answer may take. A disk that is slower costs the answer, not the caller.
const PATIENCE: Duration = Duration::from_secs(2);
/// A status may show what was seen so long ago.
const RECENT: Duration = Duration::from_secs(1);
/// Pods that a message names; the others are counted.
const MOST_NAMED: usize = 5;

/// The volumes on the node, by driver.
#[derive(Debug, Default)]
pub(crate) struct NodeVolumes {
    drivers: BTreeMap<DriverName, DriverVolumes>,
    /// Why the drivers' volumes are not all known.
    unknown: Option<String>,
}

/// The volumes of one driver.
#[derive(Debug, Default)]
struct DriverVolumes {
    handles: BTreeSet<String>,
    /// The ids of the pods.
    pods: BTreeSet<String>,
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
                    0 => String::new(),
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

    pub(crate) fn of(&self, driver: &DriverName) -> VolumeUse {
        let known = self.drivers.get(driver);
        match (&self.unknown, known) {
            (Some(why), _) => VolumeUse::NotKnown(why.clone()),
            (None, None) => VolumeUse::Free,
            (None, Some(known)) => VolumeUse::InUse {
                volumes: known.handles.len(),
                pods: known.pods.iter().cloned().collect(),
            },
        }
    }

    /// Why the volumes are not known, if they are not.
    pub(crate) fn unknown(&self) -> Option<&str> {
        self.unknown.as_deref()
    }
}

/// Reads the volumes when it is asked to, in another thread. Clones share what was read.
#[derive(Clone, Debug)]
pub(crate) struct VolumeReader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The kubelet's root directory.
    root: Mutex<PathBuf>,
    reach: Reach,
    /// One thread at a time reads: a disk that hangs blocks one thread.
    turn: Arc<Semaphore>,
    last: Mutex<Option<(Instant, Arc<NodeVolumes>)>>,
}

impl VolumeReader {
    pub(crate) fn new(root: PathBuf, reach: Reach) -> VolumeReader {
        VolumeReader(Arc::new(Shared {
            root: Mutex::new(root),
            reach,
            turn: Arc::new(Semaphore::new(1)),
            last: Mutex::new(None),
        }))
    }

    /// Goes on with another root directory of the kubelet.
    pub(crate) fn move_to(&self, root: PathBuf) {
        *locked(&self.0.root) = root;
        *locked(&self.0.last) = None;
    }

    /// The volumes as they are now.
    pub(crate) async fn read(&self) -> Arc<NodeVolumes> {
        let shared = Arc::clone(&self.0);
        let apart = async {
            let turn = Arc::clone(&shared.turn).acquire_owned().await;
            let (root, reach) = (locked(&shared.root).clone(), shared.reach.clone());
            let look = move || {
                let _turn = turn;
                Reading::of(&root, &reach)
            };
            spawn_blocking(look).await
        };
        match timeout(PATIENCE, apart).await {
            Ok(Ok(volumes)) => {
                let volumes = Arc::new(volumes);
                *locked(&self.0.last) = Some((Instant::now(), Arc::clone(&volumes)));
                volumes
            }
            Ok(Err(error)) => Arc::new(NodeVolumes::not_known(error.to_string())),
            Err(_) => {
                let root = locked(&self.0.root).display().to_string();
                let why = format!("the files below {root} were not read within {PATIENCE:?}");
                Arc::new(NodeVolumes::not_known(why))
            }
        }
    }

    /// The volumes as they were a moment ago, for a reader that changes nothing.
    pub(crate) async fn recent(&self) -> Arc<NodeVolumes> {
        let last = locked(&self.0.last).clone();
        match last {
            Some((at, volumes)) if at.elapsed() < RECENT => volumes,
            _ => self.read().await,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
