//! The reader of the volumes: looks at the kubelet's files in another thread, when it is asked to.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::NodeVolumes;
use super::reading::Reading;
use crate::disk::reach::Reach;

/// How long an answer may take. A disk that is slower costs the answer, not the caller.
const PATIENCE: Duration = Duration::from_secs(2);
/// A status may show what was seen so long ago.
const RECENT: Duration = Duration::from_secs(1);

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
