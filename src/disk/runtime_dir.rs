//! The runtime directory: it has the lock against a second instance, the state file and the control socket.

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::Flock;
use nix::unistd::geteuid;
use thiserror::Error;

use crate::disk::directory::{self, if_found};
use crate::disk::identity::Identity;
use crate::disk::lock_file::{self, LockError};

/// The path when neither the command line nor systemd names a directory.
const DEFAULT: &str = "/run/node-storage-driver-registrar";

/// The longest wait for another instance that is about to end. After a kill the kernel takes a moment to
/// close the files of the process, and with them the lock.
const ENDING: Duration = Duration::from_secs(1);
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// A runtime directory that is ours alone while this value lives.
pub(crate) struct RuntimeDir {
    place: Place,
    lock: Flock<File>,
}

/// The directory's path, and which users could have put a directory there.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// The target, if the path is a symbolic link.
    link: Option<PathBuf>,
    owner: u32,
    /// The directory's group or other users may write to it.
    writable: bool,
}

/// Why an instance has no runtime directory.
#[derive(Debug, Error)]
pub(crate) enum RuntimeError {
    #[error("another instance runs: pid {pid} holds {}", .lock.display())]
    Held { pid: String, lock: PathBuf },
    #[error("cannot {attempt} {}: {source}", .path.display())]
    Failed {
        attempt: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the runtime directory {} was replaced, and the replacement is not used: {reason}", .path.display())]
    Replaced { path: PathBuf, reason: String },
}

impl RuntimeError {
    /// Another instance holds the directory.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, RuntimeError::Held { .. })
    }

    fn failed(attempt: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RuntimeError {
        move |source| RuntimeError::Failed {
            attempt,
            path: path.to_owned(),
            source,
        }
    }
}

impl Place {
    pub(crate) fn of(path: &Path) -> io::Result<Place> {
        let found = fs::metadata(path)?;
        Ok(Place {
            path: path.to_owned(),
            link: fs::read_link(path).ok(),
            owner: found.uid(),
            writable: found.mode() & 0o022 != 0,
        })
    }

    pub(crate) fn control_socket(&self) -> PathBuf {
        control_socket(&self.path)
    }

    /// Why the directory at this path is not trusted now. A missing directory has no fault.
    pub(crate) fn fault(&self) -> Option<String> {
        Place::of(&self.path).ok()?.fault_since(self)
    }

    /// Why a directory that was like `before` is not trusted any more.
    fn fault_since(&self, before: &Place) -> Option<String> {
        let owner = self.owner;
        let is_ours = [0, geteuid().as_raw(), before.owner].contains(&owner);
        if self.link.is_some() && self.link != before.link {
            Some("it is a symbolic link".to_owned())
        } else if !is_ours {
            Some(format!("it belongs to the user {owner}"))
        } else if self.writable && !before.writable {
            Some("its group or others may write to it".to_owned())
        } else {
            None
        }
    }
}

/// The path of the runtime directory.
pub(crate) fn locate(flag: Option<&Path>) -> PathBuf {
    named(flag).unwrap_or_else(|| DEFAULT.into())
}

/// The path from `--runtime-dir`, else the first path in systemd's `$RUNTIME_DIRECTORY`.
pub(crate) fn named(flag: Option<&Path>) -> Option<PathBuf> {
    let first = || env::split_paths(&env::var_os("RUNTIME_DIRECTORY")?).next();
    let of_systemd = || first().filter(|path| path.is_absolute());
    flag.map(Path::to_owned).or_else(of_systemd)
}

pub(crate) fn control_socket(runtime: &Path) -> PathBuf {
    runtime.join("control.sock")
}

/// The pid of the instance that last took this directory, which may have ended.
pub(crate) fn last_holder(runtime: &Path) -> Option<u32> {
    let lock = fs::read_to_string(lock_in(runtime)).ok()?;
    lock.trim().parse().ok()
}

fn lock_in(runtime: &Path) -> PathBuf {
    runtime.join("lock")
}

pub(crate) fn state(runtime: &Path) -> PathBuf {
    runtime.join("state.json")
}

impl RuntimeDir {
    /// As [`Self::take`]; waits a moment if another instance holds the lock, because that instance may be
    /// about to end. Blocks the thread.
    pub(crate) fn take_in_turn(path: &Path) -> Result<RuntimeDir, RuntimeError> {
        let deadline = Instant::now() + ENDING;
        loop {
            match RuntimeDir::take(path) {
                Err(held) if held.is_held() && Instant::now() < deadline => sleep(LOOK_AGAIN),
                taken => return taken,
            }
        }
    }

    /// Makes the directory if it is missing, and takes the lock.
    pub(crate) fn take(path: &Path) -> Result<RuntimeDir, RuntimeError> {
        let place = directory::make(path)
            .and_then(|()| Place::of(path))
            .map_err(RuntimeError::failed("make the runtime directory", path))?;
        let lock = lock_in(path);
        let held = lock_file::lock(&lock).map_err(|error| match error {
            LockError::Held => {
                let pid = last_holder(path).map_or("unknown".to_owned(), |pid| pid.to_string());
                RuntimeError::Held { pid, lock }
            }
            LockError::Failed(error) => RuntimeError::failed("lock", &lock_in(path))(error),
        })?;
        Ok(RuntimeDir { place, lock: held })
    }

    /// Another instance would find the lock that we hold. While we have it open, no other file gets its
    /// inode.
    pub(crate) fn is_held(&self) -> bool {
        let held = self.lock.metadata();
        held.is_ok_and(|held| Identity::from_parts(&held, None).is_at(&lock_in(&self.place.path)))
    }

    /// Takes the directory again after another process deleted it or its lock. A directory that replaced
    /// it may be a trap, so it has to be as safe as the first; whoever starts the daemon vouches for that
    /// first directory.
    pub(crate) fn take_again(&mut self) -> Result<(), RuntimeError> {
        if let Some(reason) = self.place.fault() {
            let path = self.place.path.clone();
            return Err(RuntimeError::Replaced { path, reason });
        }
        self.lock = RuntimeDir::take(&self.place.path)?.lock;
        Ok(())
    }

    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    pub(crate) fn state(&self) -> PathBuf {
        state(&self.place.path)
    }

    /// Removes the control socket, unless another instance holds the directory. The state stays for the
    /// next run.
    pub(crate) fn leave(&self) {
        if !self.is_held() {
            return;
        }
        let socket = self.place.control_socket();
        if let Err(error) = if_found(fs::remove_file(&socket)) {
            tracing::warn!(%error, path = %socket.display(), "cannot remove the control socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_second_instance_is_told_who_holds_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let first = RuntimeDir::take(&path).unwrap();
        let Err(RuntimeError::Held { pid, .. }) = RuntimeDir::take(&path) else {
            panic!("taken twice")
        };
        assert_eq!(pid, std::process::id().to_string());
        drop(first);
        RuntimeDir::take(&path).unwrap();
    }

    #[test]
    fn a_lock_that_was_replaced_is_no_longer_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run");
        let mut ours = RuntimeDir::take(&path).unwrap();
        assert!(ours.is_held());
        for removed in [path.join("lock"), path.clone()] {
            if removed == path {
                fs::remove_dir_all(&path).unwrap();
            } else {
                fs::remove_file(&removed).unwrap();
            }
            assert!(!ours.is_held());
            let other = RuntimeDir::take(&path).unwrap();
            assert!(!ours.is_held());
            assert!(ours.take_again().unwrap_err().is_held());
            drop(other);
            ours.take_again().unwrap();
            assert!(ours.is_held());
        }
    }

    /// Puts something else in the place of the directory.
    type Replace = fn(&Path);

    fn by_link(path: &Path) {
        let elsewhere = path.with_file_name("elsewhere");
        directory::make(&elsewhere).unwrap();
        std::os::unix::fs::symlink(elsewhere, path).unwrap();
    }

    fn by_writable(path: &Path) {
        directory::make(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o775)).unwrap();
    }

    #[test]
    fn a_directory_that_others_could_have_put_there_is_not_taken_again() {
        let replacements: [(Replace, &str); 2] = [
            (by_link, "it is a symbolic link"),
            (by_writable, "its group or others may write to it"),
        ];
        for (replace, reason) in replacements {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("run");
            let mut ours = RuntimeDir::take(&path).unwrap();
            fs::remove_dir_all(&path).unwrap();
            replace(&path);
            let told = ours.take_again().unwrap_err().to_string();
            assert!(told.contains(reason), "{told}");
            assert!(!lock_in(&path).exists(), "{reason}");
        }
    }

    #[test]
    fn a_directory_that_was_like_that_from_the_start_is_taken_again() {
        for make in [by_link as Replace, by_writable] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("run");
            make(&path);
            let mut ours = RuntimeDir::take(&path).unwrap();
            fs::remove_file(lock_in(&path)).unwrap();
            ours.take_again().unwrap();
            assert!(ours.is_held());
        }
    }

    #[test]
    fn a_directory_may_belong_to_root_to_us_and_to_whom_it_belonged() {
        let owned_by = |owner| Place {
            path: PathBuf::new(),
            link: None,
            owner,
            writable: false,
        };
        let ours = geteuid().as_raw();
        for owner in [0, ours, 70_000] {
            assert_eq!(owned_by(owner).fault_since(&owned_by(70_000)), None);
        }
        let told = owned_by(70_001).fault_since(&owned_by(70_000));
        assert_eq!(told.as_deref(), Some("it belongs to the user 70001"));
    }
}
