//! state.json: what must survive the daemon. It is trusted only when it is whole, ours and of this boot.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;
use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use nix::unistd::{Uid, geteuid};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::disk::identity::Identity;
use crate::disk::layout::Layout;
use crate::driver::Record;
use crate::kubelet::known::KnownKubelets;
use crate::kubelet::watched::Watched;
use crate::os::boot;
use crate::os::process::Process;

/// Raised when an older program could no longer read the file.
const FORMAT: u32 = 1;

/// The content of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedState {
    format: u32,
    /// None where it could not be read.
    #[serde(default)]
    boot_id: Option<String>,
    /// The sockets by which a kubelet shows that it has started, as they were.
    #[serde(default, rename = "signs")]
    pub(crate) start_sockets: BTreeMap<PathBuf, Identity>,
    /// The directory that the kubelet watches.
    #[serde(default)]
    pub(crate) watched: Option<Watched>,
    /// The root of the kubelet that last told how a registration went.
    #[serde(default)]
    pub(crate) called_in: Option<PathBuf>,
    /// Where the sockets and links of these drivers are.
    #[serde(default)]
    pub(crate) layout: Option<Layout>,
    pub(crate) drivers: BTreeMap<String, SavedDriver>,
}

/// One driver in the file, with what tells it apart from another driver of its id or its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedDriver {
    #[serde(flatten)]
    pub(crate) record: Record,
    /// Not known for a file of an earlier version.
    #[serde(default)]
    pub(crate) origin: Option<Origin>,
    /// Where the driver was expected.
    #[serde(default)]
    pub(crate) csi_socket: Option<PathBuf>,
    /// That socket as it was when the driver last came.
    #[serde(default)]
    pub(crate) csi_seen: Option<Identity>,
    /// What the status showed of it. Not known for a file of an earlier version.
    #[serde(default)]
    pub(crate) shown: Option<Shown>,
}

/// What the status showed of a driver: a restart of the daemon is no event in the life of a driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shown {
    pub(crate) phase: String,
    /// When the phase was entered, RFC 3339.
    pub(crate) since: String,
    #[serde(default)]
    pub(crate) counts: Counts,
}

/// How often things happened to a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    pub(crate) registrations: u64,
    pub(crate) rejections: u64,
    pub(crate) announcements: u64,
    pub(crate) link_repairs: u64,
    /// The driver stopped answering, or restarted.
    pub(crate) disconnects: u64,
}

/// Where a driver came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// A table of the configuration names it.
    Table,
    /// It was found in plugins_dir.
    Discovery,
}

impl SavedDriver {
    /// What is left of it in other directories: that an operator has withdrawn the driver.
    pub(crate) fn by_hand(self) -> Option<SavedDriver> {
        let record = self.record.by_hand()?;
        Some(SavedDriver { record, ..self })
    }
}

/// The part that every format has.
#[derive(Deserialize)]
struct Header {
    format: u32,
}

/// Why a state file was not trusted.
#[derive(Debug, Error)]
enum Distrust {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it may be another user's: uid {owner}, mode {mode:04o}")]
    Foreign { owner: u32, mode: u32 },
    #[error("it is torn or not ours: {0}")]
    Torn(#[from] serde_json::Error),
    #[error("it has format {0}, which is newer than {FORMAT}")]
    Newer(u32),
    #[error("it is from another boot")]
    OtherBoot,
    #[error("it may be from another boot: the boot id is not known, and the file is not in memory")]
    UnknownBoot,
}

impl SavedState {
    pub(crate) fn new(
        kubelets: &KnownKubelets,
        layout: &Layout,
        drivers: BTreeMap<String, SavedDriver>,
    ) -> SavedState {
        SavedState {
            format: FORMAT,
            boot_id: boot::id().map(str::to_owned),
            start_sockets: kubelets.saved_start_sockets(),
            watched: kubelets.watched(),
            called_in: kubelets.called_in.clone(),
            layout: Some(layout.clone()),
            drivers,
        }
    }

    /// Reads what an earlier run wrote. A file that cannot be trusted counts as none.
    pub(crate) fn load(path: &Path) -> Option<SavedState> {
        // A write that was cut short leaves this file behind, and the next write may be far away.
        let staged = staged(path);
        if let Err(error) = remove_if_exists(&staged) {
            tracing::warn!(%error, path = %staged.display(), "cannot remove a temporary file");
        }
        match SavedState::read(path) {
            Ok(state) => Some(state),
            Err(Distrust::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(why) => {
                tracing::warn!(path = %path.display(), %why, "the state file is not trusted");
                None
            }
        }
    }

    /// The root directory of the kubelet that last told an earlier run of this boot, or this run, how
    /// a registration went, and its process.
    pub(crate) fn kubelet_root(path: &Path) -> Option<(PathBuf, Option<Process>)> {
        let state = SavedState::peek(path)?;
        let kubelet = state.watched.and_then(|watched| watched.by);
        Some((state.called_in?, kubelet))
    }

    /// What the file says, for a command that changes nothing. A file that cannot be trusted counts as
    /// none.
    pub(crate) fn peek(path: &Path) -> Option<SavedState> {
        SavedState::read(path).ok()
    }

    fn read(path: &Path) -> Result<SavedState, Distrust> {
        // Does not follow a link, and does not wait for a pipe without a writer.
        let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        let found = file.metadata()?;
        if !is_own(found.uid(), found.mode(), geteuid()) {
            return Err(Distrust::Foreign {
                owner: found.uid(),
                mode: found.mode() & 0o7777,
            });
        }
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let Header { format } = serde_json::from_slice(&text)?;
        if format > FORMAT {
            return Err(Distrust::Newer(format));
        }
        let state: SavedState = serde_json::from_slice(&text)?;
        check_boot(state.boot_id.as_deref(), boot::id(), || is_in_memory(&file))?;
        Ok(state)
    }

    /// Replaces the file. A reader, or the daemon after a crash, sees the old file or the new file.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let staged = staged(path);
        remove_if_exists(&staged)?;
        let mut file = create(&staged)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&staged, path)
    }
}

/// Only root and our own user can have written the file. The directory may be writable for others, such
/// as a volume of a pod.
fn is_own(owner: u32, mode: u32, ours: Uid) -> bool {
    (owner == 0 || owner == ours.as_raw()) && mode & 0o022 == 0
}

/// Creates a file of our own. A file that another user has put there, such as a link to a file that
/// only root may write, is not written to.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

fn staged(path: &Path) -> PathBuf {
    path.with_extension("json.new")
}

fn remove_if_exists(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// A file without a boot id, or a file that is read in a boot without an id, is of this boot if it is
/// in memory: no file there outlives a boot.
fn check_boot(
    written: Option<&str>,
    now: Option<&str>,
    is_in_memory: impl FnOnce() -> bool,
) -> Result<(), Distrust> {
    // An earlier version wrote an empty id where it could not read the id.
    match (written.filter(|id| !id.is_empty()), now) {
        (Some(written), Some(now)) if written == now => Ok(()),
        (Some(_), Some(_)) => Err(Distrust::OtherBoot),
        _ if is_in_memory() => Ok(()),
        _ => Err(Distrust::UnknownBoot),
    }
}

fn is_in_memory(file: &File) -> bool {
    fstatfs(file).is_ok_and(|found| found.filesystem_type() == TMPFS_MAGIC)
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_that_is_not_known_is_no_other_unknown_one() {
        let (this, other) = (Some("this"), Some("other"));
        let is_trusted = |written, now, in_memory| check_boot(written, now, || in_memory).is_ok();
        for in_memory in [false, true] {
            assert!(is_trusted(this, this, in_memory));
            assert!(!is_trusted(other, this, in_memory));
        }
        for (written, now) in [(None, None), (Some(""), None), (None, this), (this, None)] {
            assert!(!is_trusted(written, now, false), "{written:?} {now:?}");
            assert!(is_trusted(written, now, true), "{written:?} {now:?}");
        }
    }
}
