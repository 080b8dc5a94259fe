//! The memory of repairs, `repairs.json` in the runtime directory: earlier announcements bound later ones.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::repair::{Now, Repairs};
use crate::disk::boot_file::{self, BootFile, Distrust};
use crate::disk::lock_file::{LockError, lock};
use crate::os::boot;

/// Raised when an older program could no longer read the file.
const FORMAT: u32 = 1;

/// The content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedRepairs {
    format: u32,
    /// None where it could not be read.
    #[serde(default)]
    boot_id: Option<String>,
    #[serde(flatten)]
    repairs: Repairs,
}

impl BootFile for SavedRepairs {
    const FORMAT: u32 = FORMAT;

    fn boot_id(&self) -> Option<&str> {
        self.boot_id.as_deref()
    }
}

/// The memory, ours alone while this value lives.
pub(crate) struct Memory {
    path: PathBuf,
    _lock: Flock<File>,
    pub(crate) repairs: Repairs,
    /// Why what was in the file does not count.
    pub(crate) distrust: Option<String>,
}

/// Why no driver is announced, whatever the cluster has lost.
#[derive(Debug, Error)]
pub(crate) enum MemoryError {
    #[error("another verify --repair runs")]
    Held,
    #[error("cannot keep the memory of repairs {}: {source}", .path.display())]
    Failed { path: PathBuf, source: io::Error },
}

impl Memory {
    /// Takes the memory in this runtime directory. If it cannot be trusted, earlier announcements are not known,
    /// and the next one waits.
    pub(crate) fn take(runtime: &Path, now: Now) -> Result<Memory, MemoryError> {
        let path = runtime.join("repairs.json");
        let place = runtime.join("repairs.lock");
        let lock = lock(&place).map_err(|error| match error {
            LockError::Held => MemoryError::Held,
            LockError::Failed(source) => MemoryError::Failed {
                path: place,
                source,
            },
        })?;
        let (repairs, distrust, is_as_written) = match boot_file::read(&path) {
            Ok(saved) => {
                let written = saved.map(|saved: SavedRepairs| saved.repairs);
                let written = written.unwrap_or_default();
                let repairs = written.clone().corrected(now);
                let is_as_written = repairs == written;
                (repairs, None, is_as_written)
            }
            // After a boot every driver is registered anew.
            Err(Distrust::OtherBoot) => (Repairs::default(), None, true),
            Err(why) => (Repairs::unknown(now), Some(why.to_string()), false),
        };
        let memory = Memory {
            path,
            _lock: lock,
            repairs,
            distrust,
        };
        // A delay that began now ends only if the next run knows when it began.
        if !is_as_written {
            memory.save()?;
        }
        Ok(memory)
    }

    /// Writes the memory down, before what it speaks of is done.
    pub(crate) fn save(&self) -> Result<(), MemoryError> {
        let saved = SavedRepairs {
            format: FORMAT,
            boot_id: boot::id().map(str::to_owned),
            repairs: self.repairs.clone(),
        };
        boot_file::write(&self.path, &saved).map_err(|source| MemoryError::Failed {
            path: self.path.clone(),
            source,
        })
    }
}

#[cfg(test)]
mod tests;
