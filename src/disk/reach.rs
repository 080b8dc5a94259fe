//! Looks at paths on file systems that may hang, without blocking the daemon.
//!
//! A thread that touches a file system whose server does not respond (NFS, FUSE, an automount) blocks
//! until the server responds. The daemon has one thread, so it never touches such a file system: the
//! table of mounts shows which paths lead through one, and another thread looks there.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::disk::directory::{MOST_LINKS, names};
use crate::disk::mount_table::{MountEntry, TABLE};

/// File systems that only the kernel of this machine serves. Any other may hang.
const LOCAL: &str = "bcachefs bpf btrfs cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs erofs exfat \
    ext2 ext3 ext4 f2fs hugetlbfs iso9660 jfs mqueue nsfs ntfs3 overlay proc pstore ramfs \
    reiserfs rootfs securityfs selinuxfs squashfs sysfs tmpfs tracefs udf vfat xfs zfs";

/// The mounts that may hang. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach(Arc<Mutex<Vec<Arc<Mount>>>>);

/// A mount that may hang. One thread at a time looks at its files: a server that hangs then blocks one
/// thread, and not one for each driver.
#[derive(Debug)]
struct Mount {
    id: String,
    point: PathBuf,
    kind: String,
    turn: Arc<Semaphore>,
}

/// A look at a file took too long.
#[derive(Clone, Debug, Error)]
#[error("the {} file system at {} does not answer", .0.kind, .0.point.display())]
pub(crate) struct Hung(Arc<Mount>);

impl From<MountEntry> for Mount {
    fn from(entry: MountEntry) -> Mount {
        Mount {
            id: entry.id,
            point: entry.point,
            kind: entry.kind,
            turn: Arc::new(Semaphore::new(1)),
        }
    }
}

impl Hung {
    /// Resolves when the server responds again.
    pub(crate) async fn over(&self) {
        drop(self.0.turn.acquire().await);
    }
}

impl Reach {
    /// The mounts of the present table.
    pub(crate) fn now() -> Reach {
        let reach = Reach::default();
        reach.read_mounts();
        reach
    }

    /// With one mount that may hang.
    #[cfg(test)]
    pub(crate) fn with_mount(point: &Path) -> Reach {
        let reach = Reach::default();
        let line = format!(
            "1 1 0:9 / {} rw shared:1 - nfs server rw\n",
            point.display()
        );
        reach.take_over(line.as_bytes()).expect("a table in memory");
        reach
    }

    /// Reads the table of mounts again, after a mount or an unmount.
    pub(crate) fn read_mounts(&self) {
        let table = File::open(TABLE);
        if let Err(error) = table.and_then(|table| self.take_over(BufReader::new(table))) {
            tracing::debug!(%error, "cannot read the table of mounts");
        }
    }

    /// A mount that was in the table before keeps the thread that waits for it.
    fn take_over(&self, table: impl BufRead) -> io::Result<()> {
        let mut known = self.mounts();
        let mut mounts: Vec<Arc<Mount>> = Vec::new();
        for line in table.split(b'\n') {
            let Some(found) = MountEntry::parse(&line?) else {
                continue;
            };
            // Of several mounts at one point, the last hides the others.
            mounts.retain(|before| before.point != found.point);
            // Local mounts are not kept, because a node with many pods has thousands.
            if !is_local(&found.kind) {
                let is_same = |m: &&Arc<Mount>| m.id == found.id && m.point == found.point;
                let before = known.iter().find(is_same).cloned();
                mounts.push(before.unwrap_or_else(|| Arc::new(found.into())));
            }
        }
        *known = mounts;
        Ok(())
    }

    fn mounts(&self) -> MutexGuard<'_, Vec<Arc<Mount>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mount points at `path` and below it that may hang. `path` has no links.
    pub(crate) fn mounts_below(&self, path: &Path) -> HashSet<PathBuf> {
        let mounts = self.mounts();
        let points = mounts.iter().map(|mount| &mount.point);
        points
            .filter(|point| point.starts_with(path))
            .cloned()
            .collect()
    }

    /// Whether a look at `path` may block.
    pub(crate) fn may_hang(&self, path: &Path) -> bool {
        self.on_the_way(path).is_some()
    }

    /// Looks at once where no mount on the way to `path` may hang, and otherwise in another thread, for at
    /// most `patience`.
    ///
    /// # Errors
    /// The file system does not respond. The look goes on, and its result is dropped.
    pub(crate) async fn look<T: Send + 'static>(
        &self,
        path: &Path,
        patience: Duration,
        look: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Hung> {
        let Some(mount) = self.on_the_way(path) else {
            return Ok(look());
        };
        let apart = async {
            let turn = Arc::clone(&mount.turn).acquire_owned().await;
            let look = move || {
                let _turn = turn;
                look()
            };
            spawn_blocking(look).await
        };
        let seen = timeout(patience, apart).await.ok().and_then(Result::ok);
        seen.ok_or(Hung(mount))
    }

    /// The first mount on the way to `path` that may hang. Follows links by hand, and takes each step only
    /// when no mount before it may hang.
    fn on_the_way(&self, path: &Path) -> Option<Arc<Mount>> {
        let mounts = self.mounts();
        if mounts.is_empty() {
            return None;
        }
        let at = |point: &Path| mounts.iter().find(|mount| mount.point == point);
        let mut links = 0;
        let mut steps = names(path);
        let mut way = PathBuf::from("/");
        loop {
            if let Some(mount) = at(&way) {
                return Some(Arc::clone(mount));
            }
            match fs::read_link(&way) {
                Ok(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    if target.is_absolute() {
                        way = PathBuf::from("/");
                    } else {
                        way.pop();
                    }
                    steps.append(&mut names(&target));
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
                // Not a link.
                Err(_) => {}
            }
            let step = steps.pop()?;
            if step == ".." {
                way.pop();
            } else {
                way.push(step);
            }
        }
    }
}

/// Only the kernel of this machine serves file systems of this kind.
pub(super) fn is_local(kind: &str) -> bool {
    LOCAL.split(' ').any(|local| local == kind)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::mpsc;

    use super::*;

    fn reach(mounts: &[(&str, &Path)]) -> Reach {
        let lines = mounts.iter().enumerate().map(|(id, (kind, point))| {
            format!(
                "{id} 1 0:9 / {} rw shared:1 - {kind} server rw\n",
                point.display()
            )
        });
        let reach = Reach::default();
        reach
            .take_over(lines.collect::<String>().as_bytes())
            .unwrap();
        reach
    }

    #[test]
    fn what_is_served_by_others_may_hang_with_everything_below_it() {
        let reach = reach(&[
            ("ext4", Path::new("/")),
            ("nfs4", Path::new("/vdata")),
            ("fuse.sshfs", Path::new("/a\\040b")),
            ("tmpfs", Path::new("/vdata/local")),
        ]);
        assert!(reach.may_hang(Path::new("/vdata")));
        assert!(reach.may_hang(Path::new("/vdata/x/csi.sock")));
        // The way to it leads through the other.
        assert!(reach.may_hang(Path::new("/vdata/local/csi.sock")));
        assert!(reach.may_hang(Path::new("/a b/csi.sock")));
        assert!(reach.may_hang(Path::new("/tmp/../vdata")));
        assert!(!reach.may_hang(Path::new("/vdata2/x")) && !reach.may_hang(Path::new("/")));
    }

    #[test]
    fn of_two_mounts_at_one_point_the_upper_one_counts() {
        let upper_is_local = reach(&[
            ("autofs", Path::new("/vdata")),
            ("xfs", Path::new("/vdata")),
        ]);
        assert!(!upper_is_local.may_hang(Path::new("/vdata/x")));
        let upper_is_not = reach(&[("xfs", Path::new("/vdata")), ("nfs", Path::new("/vdata"))]);
        assert!(upper_is_not.may_hang(Path::new("/vdata/x")));
    }

    #[test]
    fn links_that_lead_there_count() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let there = root.join("there");
        let reach = Reach::with_mount(&there);
        symlink(&there, root.join("absolute")).unwrap();
        fs::create_dir(root.join("below")).unwrap();
        symlink("../absolute/x", root.join("below/relative")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        assert!(reach.may_hang(&root.join("absolute/csi.sock")));
        assert!(reach.may_hang(&root.join("below/relative/csi.sock")));
        assert!(!reach.may_hang(&root.join("below/csi.sock")));
        assert!(!reach.may_hang(&root.join("loop/csi.sock")));
    }

    #[tokio::test]
    async fn a_look_that_hangs_is_given_up_and_holds_one_thread() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let reach = Reach::with_mount(&root);
        let (answer, server) = mpsc::channel::<()>();
        let moment = Duration::from_millis(20);
        let hung = reach
            .look(&root, moment, move || server.recv().is_ok())
            .await
            .unwrap_err();
        assert!(hung.to_string().starts_with("the nfs file system at "));
        // The next look is not even begun.
        let (begun, begins) = mpsc::channel();
        let next = reach.look(&root, moment, move || begun.send(()));
        assert!(next.await.is_err());
        assert!(begins.try_recv().is_err());
        answer.send(()).unwrap();
        hung.over().await;
        let seen = reach.look(&root, Duration::from_secs(60), || 1).await;
        assert_eq!(seen.unwrap(), 1);
    }

    #[test]
    fn a_mount_that_stays_keeps_the_thread_that_waits_for_it() {
        let point = Path::new("/vdata");
        let reach = reach(&[("nfs", point)]);
        let before = reach.on_the_way(point).unwrap();
        let table = "0 1 0:9 / /vdata rw - nfs server rw\n1 1 0:9 / /b rw - nfs server rw\n";
        reach.take_over(table.as_bytes()).unwrap();
        assert!(Arc::ptr_eq(&before, &reach.on_the_way(point).unwrap()));
        let anew = "7 1 0:9 / /vdata rw - nfs server rw\n";
        reach.take_over(anew.as_bytes()).unwrap();
        assert!(!Arc::ptr_eq(&before, &reach.on_the_way(point).unwrap()));
    }
}
