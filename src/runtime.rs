//! The runtime directory: the lock against a second instance, and where state and control socket go.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg, OFlag};
use thiserror::Error;

use crate::directory;
use crate::identity::Identity;

const DEFAULT: &str = "/run/node-storage-driver-registrar";

/// A runtime directory that is ours alone while this lives.
pub(crate) struct RuntimeDir {
    path: PathBuf,
    lock: Flock<File>,
}

/// Why there is none.
#[derive(Debug, Error)]
pub(crate) enum RuntimeError {
    #[error("another instance runs: pid {pid} holds {}", .lock.display())]
    Held { pid: String, lock: PathBuf },
    #[error("cannot make the runtime directory {}: {source}", .path.display())]
    Make { path: PathBuf, source: io::Error },
    #[error("cannot lock {}: {source}", .lock.display())]
    Lock { lock: PathBuf, source: io::Error },
}

impl RuntimeError {
    /// Another instance has it.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self, RuntimeError::Held { .. })
    }
}

/// Where the runtime directory is: the one that is named, else ours.
pub(crate) fn locate(flag: Option<&Path>) -> PathBuf {
    named(flag).unwrap_or_else(usual)
}

/// The directory that somebody names: `--runtime-dir`, else the first of systemd's.
pub(crate) fn named(flag: Option<&Path>) -> Option<PathBuf> {
    if let Some(path) = flag {
        return Some(path.to_owned());
    }
    let first = env::var_os("RUNTIME_DIRECTORY").and_then(|all| env::split_paths(&all).next());
    first.filter(|path| path.is_absolute())
}

/// The directory when nobody names one.
pub(crate) fn usual() -> PathBuf {
    PathBuf::from(DEFAULT)
}

pub(crate) fn control_socket(runtime: &Path) -> PathBuf {
    runtime.join("control.sock")
}

/// The process that last took this runtime directory, as it wrote it down; it may have ended.
pub(crate) fn last_holder(runtime: &Path) -> Option<u32> {
    let lock = fs::read_to_string(lock_in(runtime)).ok()?;
    lock.trim().parse().ok()
}

fn lock_in(runtime: &Path) -> PathBuf {
    runtime.join("lock")
}

/// The state file in a runtime directory.
pub(crate) fn state(runtime: &Path) -> PathBuf {
    runtime.join("state.json")
}

impl RuntimeDir {
    /// Makes the directory if need be, and takes the lock.
    pub(crate) fn take(path: &Path) -> Result<RuntimeDir, RuntimeError> {
        let make = |source| RuntimeError::Make {
            path: path.to_owned(),
            source,
        };
        directory::make(path).map_err(make)?;
        let lock = lock_in(path);
        let failed = |source| RuntimeError::Lock {
            lock: lock.clone(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            // A link here would have us cut the file that it points to.
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(&lock)
            .map_err(failed)?;
        let mut held = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => held,
            Err((mut file, Errno::EWOULDBLOCK)) => {
                return Err(RuntimeError::Held {
                    pid: holder(&mut file),
                    lock,
                });
            }
            Err((_, error)) => return Err(failed(error.into())),
        };
        // Cut afterwards: to empty a file first is what some file systems are slow at.
        let pid = format!("{}\n", std::process::id());
        held.write_all(pid.as_bytes())
            .and_then(|()| held.set_len(pid.len() as u64))
            .map_err(failed)?;
        Ok(RuntimeDir {
            path: path.to_owned(),
            lock: held,
        })
    }

    /// The lock that we hold is the one that another instance would find. While it is open, its inode
    /// is given to no other file.
    pub(crate) fn is_held(&self) -> bool {
        let held = self.lock.metadata();
        held.is_ok_and(|held| Identity::from_parts(&held, None).is_at(&lock_in(&self.path)))
    }

    /// Takes the directory once more, after somebody has deleted it or the lock in it.
    pub(crate) fn take_again(&mut self) -> Result<(), RuntimeError> {
        *self = RuntimeDir::take(&self.path)?;
        Ok(())
    }

    pub(crate) fn state(&self) -> PathBuf {
        state(&self.path)
    }

    pub(crate) fn control_socket(&self) -> PathBuf {
        control_socket(&self.path)
    }

    /// Removes what means nothing without us. The state stays for the next run.
    pub(crate) fn leave(&self) {
        // Otherwise it is another instance's.
        if !self.is_held() {
            return;
        }
        let socket = self.control_socket();
        if let Err(error) = fs::remove_file(&socket)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, path = %socket.display(), "cannot remove the control socket");
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

fn holder(file: &mut File) -> String {
    let mut pid = String::new();
    match file.read_to_string(&mut pid) {
        Ok(_) if !pid.trim().is_empty() => pid.trim().to_owned(),
        Ok(_) | Err(_) => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
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
}
