//! The reader of the volumes: looks at the kubelet's files in another thread, when it is asked to.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};

use super::NodeVolumes;
use super::reading::Reading;
use crate::disk::directory::inode;
use crate::disk::reach::Reach;
use crate::os::memory;
use crate::os::text::enumerated;

/// How long an answer may take. A disk that is slower costs the answer, not the caller.
const PATIENCE: Duration = Duration::from_secs(2);
/// A status may show what was seen so long ago.
const RECENT: Duration = Duration::from_secs(1);

/// Reads the volumes when it is asked to, in another thread. Clones share the last look.
#[derive(Clone, Debug)]
pub(crate) struct VolumeReader(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    reach: Reach,
    /// One thread at a time looks: a disk that hangs blocks one thread.
    turn: Arc<Semaphore>,
    /// Of the readers that content themselves with a recent look, one at a time waits for a new look.
    display: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    /// The directories that may be the kubelet's root directory.
    roots: Vec<PathBuf>,
    last: Option<(Instant, Arc<NodeVolumes>)>,
    /// The last look took longer than the patience of its caller.
    was_late: bool,
}

impl VolumeReader {
    pub(crate) fn new(roots: Vec<PathBuf>, reach: Reach) -> VolumeReader {
        VolumeReader(Arc::new(Shared {
            state: Mutex::new(State {
                roots,
                last: None,
                was_late: false,
            }),
            reach,
            turn: Arc::new(Semaphore::new(1)),
            display: tokio::sync::Mutex::new(()),
        }))
    }

    /// Goes on with other root directories of the kubelet.
    pub(crate) fn move_to(&self, roots: Vec<PathBuf>) {
        let mut state = self.state();
        if state.roots != roots {
            state.roots = roots;
            state.last = None;
        }
    }

    /// The volumes as they are now.
    pub(crate) async fn read(&self) -> Arc<NodeVolumes> {
        let looked = async {
            let turn = Arc::clone(&self.0.turn).acquire_owned().await;
            // Not before the turn: what was seen must be as new as the question.
            let (roots, reach) = (self.state().roots.clone(), self.0.reach.clone());
            let places = roots.clone();
            let look = move || {
                let _turn = turn;
                look(&places, &reach)
            };
            (roots, spawn_blocking(look).await)
        };
        let (roots, looked) = match timeout(PATIENCE, looked).await {
            Ok(looked) => looked,
            Err(_) => {
                let mut state = self.state();
                state.was_late = true;
                return Arc::new(late(&state.roots));
            }
        };
        let volumes = looked.unwrap_or_else(|error| NodeVolumes::not_known(error.to_string()));
        let volumes = Arc::new(volumes);
        let mut state = self.state();
        state.was_late = false;
        // A reload may have changed the directory meanwhile.
        if state.roots == roots {
            state.last = Some((Instant::now(), Arc::clone(&volumes)));
        }
        volumes
    }

    /// The volumes as they were a moment ago, for a reader that changes nothing. However many ask, they
    /// cause one look a second. While a look hangs, they are told so at once.
    pub(crate) async fn recent(&self) -> Arc<NodeVolumes> {
        let _alone = self.0.display.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        self.read().await
    }

    /// The last look if it is recent, or that the present look hangs.
    fn known(&self) -> Option<Arc<NodeVolumes>> {
        let state = self.state();
        if state.was_late && self.0.turn.available_permits() == 0 {
            return Some(Arc::new(late(&state.roots)));
        }
        let (at, volumes) = state.last.as_ref()?;
        (at.elapsed() < RECENT).then(|| Arc::clone(volumes))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

fn look(roots: &[PathBuf], reach: &Reach) -> NodeVolumes {
    let mut volumes = NodeVolumes::default();
    // Two paths may lead to one directory.
    let mut seen = Vec::new();
    for root in roots {
        let found = inode(root);
        if found.is_some() && seen.contains(&found) {
            continue;
        }
        seen.push(found);
        tracing::debug!(root = %root.display(), "looking for volumes in the kubelet's files");
        volumes.add(Reading::of(root, reach));
    }
    // The thread has a heap of its own, which the C library would keep.
    memory::give_back();
    volumes
}

fn late(roots: &[PathBuf]) -> NodeVolumes {
    let roots = enumerated(roots.iter().map(|root| root.display()), roots.len());
    NodeVolumes::not_known(format!(
        "the files below {roots} were not read within {PATIENCE:?}"
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::future::Future;
    use std::pin::pin;

    use bed::{HangingMount, KubeletVolumes};
    use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
    use tempfile::TempDir;

    use super::*;
    use crate::disk::name::DriverName;
    use crate::kubelet::volumes::VolumeUse;

    const A: &str = "a.csi.example.com";

    fn of(volumes: &NodeVolumes) -> VolumeUse {
        volumes.of(&DriverName::parse(A).unwrap())
    }

    fn scene() -> (TempDir, KubeletVolumes, VolumeReader) {
        let dir = tempfile::tempdir().unwrap();
        let kubelet = KubeletVolumes::below(dir.path().join("kubelet"));
        let reader = VolumeReader::new(vec![kubelet.root().to_owned()], Reach::default());
        (dir, kubelet, reader)
    }

    /// The answer, if it needs no wait at all.
    async fn at_once<T>(answer: impl Future<Output = T>) -> Option<T> {
        let mut answer = pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => Some(answer),
            () = std::future::ready(()) => None,
        }
    }

    #[tokio::test]
    async fn a_decision_sees_the_present_and_a_display_the_last_second() {
        let (_dir, kubelet, reader) = scene();
        assert_eq!(of(&*reader.recent().await), VolumeUse::Free);
        kubelet.pod("uid-1", "pv-1", A, "h1");
        let shown = at_once(reader.recent()).await;
        assert!(of(&*reader.read().await).holds());
        assert_eq!(shown.map(|shown| of(&shown)), Some(VolumeUse::Free));
        // The decision's look is the last look of the display too.
        let shown = at_once(reader.recent()).await.unwrap();
        assert_eq!(of(&shown).count(), Some(1));
    }

    #[tokio::test]
    async fn many_displays_at_the_same_time_cause_a_single_look() {
        let (_dir, kubelet, reader) = scene();
        let volume = kubelet.pod("uid-1", "pv-1", A, "h1");
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK).unwrap();
        let flags = AddWatchFlags::IN_OPEN;
        inotify.add_watch(&volume.file(), flags).unwrap();
        let displays = (0..50).map(|_| {
            let reader = reader.clone();
            tokio::spawn(async move { of(&*reader.recent().await).count() })
        });
        for display in displays.collect::<Vec<_>>() {
            assert_eq!(display.await.unwrap(), Some(1));
        }
        // Longer than a second on a machine that is busy: two looks.
        let opens = inotify.read_events().unwrap().len();
        assert!(opens <= 2, "{opens}");
    }

    #[tokio::test]
    async fn a_look_of_the_old_directory_is_not_shown_after_a_reload() {
        let (dir, kubelet, reader) = scene();
        kubelet.pod("uid-1", "pv-1", A, "h1");
        assert!(of(&*reader.recent().await).holds());
        reader.move_to(vec![dir.path().join("other")]);
        assert_eq!(of(&*reader.recent().await), VolumeUse::Free);
        let before = reader.clone();
        let look = tokio::spawn(async move { before.read().await });
        tokio::task::yield_now().await;
        reader.move_to(vec![kubelet.root().to_owned()]);
        look.await.unwrap();
        assert!(of(&*reader.recent().await).holds());
    }

    #[tokio::test]
    async fn a_volume_below_any_of_the_directories_counts_once() {
        let (dir, kubelet, reader) = scene();
        kubelet.pod("uid-1", "pv-1", A, "h1");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(kubelet.root(), &link).unwrap();
        let missing = dir.path().join("missing");
        reader.move_to(vec![missing, kubelet.root().to_owned(), link]);
        assert_eq!(of(&*reader.read().await).count(), Some(1));
    }

    #[tokio::test]
    async fn a_disk_that_hangs_costs_the_answer_and_one_thread() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("kubelet");
        let Some(mount) = HangingMount::over(&root) else {
            return;
        };
        KubeletVolumes::below(&root).pod("uid-1", "pv-1", A, "h1");
        let reader = VolumeReader::new(vec![root.clone()], Reach::default());
        assert_eq!(of(&*reader.read().await).count(), Some(1));
        let hang = mount.hang();
        let told = reader.read().await;
        let why = format!("the files below {} were not read within 2s", root.display());
        assert_eq!(told.unknown(), Some(&*why));
        for _ in 0..3 {
            // The last look was less than a second before the one that hangs, or it was not.
            let shown = at_once(reader.recent()).await.unwrap();
            assert_eq!(shown.unknown(), Some(&*why));
        }
        assert_eq!(of(&*reader.read().await), VolumeUse::NotKnown(why));
        assert_eq!(reader.0.turn.available_permits(), 0);
        drop(hang);
        let turn = reader.0.turn.acquire().await.unwrap();
        drop(turn);
        assert_eq!(of(&*reader.recent().await).count(), Some(1));
        fs::remove_dir_all(root.join("pods")).unwrap();
        assert_eq!(of(&*reader.read().await), VolumeUse::Free);
    }
}
