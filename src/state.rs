//! What must survive us: state.json. It is trusted only when it is whole, ours and of this boot.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::driver::Record;
use crate::identity::Identity;

/// Raised when an older program could no longer read the file.
const FORMAT: u32 = 1;

/// Everything that is written down.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    format: u32,
    boot_id: String,
    /// The sockets by which a kubelet shows that it has started, as they were.
    #[serde(default)]
    pub(crate) signs: BTreeMap<PathBuf, Identity>,
    pub(crate) drivers: BTreeMap<String, Record>,
}

/// The one thing that every format has, whatever else is in it.
#[derive(Deserialize)]
struct Header {
    format: u32,
}

/// Why a state file was not trusted.
#[derive(Debug, Error)]
enum Distrust {
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error("it is torn or not ours: {0}")]
    Torn(#[from] serde_json::Error),
    #[error("it has format {0}, which is newer than {FORMAT}")]
    Newer(u32),
    #[error("it is from another boot")]
    OtherBoot,
}

impl State {
    pub(crate) fn new(
        signs: BTreeMap<PathBuf, Identity>,
        drivers: BTreeMap<String, Record>,
    ) -> State {
        State {
            format: FORMAT,
            boot_id: boot_id(),
            signs,
            drivers,
        }
    }

    /// Reads what an earlier run wrote. What cannot be trusted is as good as nothing.
    pub(crate) fn load(path: &Path) -> Option<State> {
        remove_staged(path);
        match State::read(path) {
            Ok(state) => Some(state),
            Err(Distrust::Unreadable(error)) if error.kind() == io::ErrorKind::NotFound => None,
            Err(why) => {
                tracing::warn!(path = %path.display(), %why, "the state file is not trusted");
                None
            }
        }
    }

    fn read(path: &Path) -> Result<State, Distrust> {
        let text = fs::read(path)?;
        let Header { format } = serde_json::from_slice(&text)?;
        if format > FORMAT {
            return Err(Distrust::Newer(format));
        }
        let state: State = serde_json::from_slice(&text)?;
        if state.boot_id != boot_id() {
            return Err(Distrust::OtherBoot);
        }
        Ok(state)
    }

    /// Writes the file anew. A reader, or we after a crash, sees the old one or the new one.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        let staged = staged(path);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&staged)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(&staged, path)
    }
}

fn staged(path: &Path) -> PathBuf {
    path.with_extension("json.new")
}

/// A write that was cut short leaves this behind, and there may be nothing to write for long.
fn remove_staged(path: &Path) {
    let staged = staged(path);
    match fs::remove_file(&staged) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, path = %staged.display(), "cannot remove a temporary file");
        }
        Ok(()) | Err(_) => {}
    }
}

/// Pids, start times and inodes mean nothing after a reboot.
fn boot_id() -> String {
    match fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        Ok(id) => id.trim().to_owned(),
        Err(error) => {
            tracing::warn!(%error, "the boot id cannot be read");
            String::new()
        }
    }
}
