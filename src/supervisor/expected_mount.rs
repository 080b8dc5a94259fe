//! The mount that is missing above a directory of ours. The daemon works on without it, for drivers on other
//! file systems need it.

use std::path::Path;

use crate::disk::directory::inode;
use crate::disk::missing_mount::MissingMount;
use crate::disk::reach::Reach;

/// What a look at a directory has shown.
pub(super) struct ExpectedMount {
    key: &'static str,
    /// What the missing mount does.
    effect: &'static str,
    /// Device and inode of the directory at the last look. They change when the directory is created, and
    /// when a file system is mounted or unmounted above it.
    directory: Option<(u64, u64)>,
    missing: Option<MissingMount>,
}

impl ExpectedMount {
    pub(super) fn of_registry_dir() -> ExpectedMount {
        ExpectedMount::new(
            "registry_dir",
            "the mount will hide the sockets that are served there until then",
        )
    }

    pub(super) fn of_plugins_dir() -> ExpectedMount {
        ExpectedMount::new(
            "plugins_dir",
            "drivers on that file system are away, and a registered driver stays registered",
        )
    }

    fn new(key: &'static str, effect: &'static str) -> ExpectedMount {
        ExpectedMount {
            key,
            effect,
            directory: None,
            missing: None,
        }
    }

    pub(super) fn is_missing(&self) -> bool {
        self.missing.is_some()
    }

    /// Looks for a missing mount if it is another directory than before. Otherwise only the directory
    /// itself is looked at, because this is called for each socket that is served.
    pub(super) fn look_if_changed(&mut self, directory: &Path, reach: &Reach) {
        if reach.may_hang(directory) || inode(directory) != self.directory {
            self.look(directory, reach);
        }
    }

    /// The same, and looks again for a mount that was missing. For the slow look.
    pub(super) fn look(&mut self, directory: &Path, reach: &Reach) {
        // A mount that may hang is a mount.
        if reach.may_hang(directory) {
            *self = ExpectedMount::new(self.key, self.effect);
            return;
        }
        let found = inode(directory);
        if found == self.directory && found.is_some() && self.missing.is_none() {
            return;
        }
        self.directory = found;
        let missing = MissingMount::above(directory);
        if missing == self.missing {
            return;
        }
        let (key, directory) = (self.key, directory.display());
        match (&missing, &self.missing) {
            (Some(mount), _) => {
                let words = self.words(mount);
                tracing::warn!(%directory, "{words}");
            }
            (None, Some(mount)) => {
                let point = mount.point.display();
                tracing::info!(%directory, "{key}: {point} is mounted");
            }
            (None, None) => {}
        }
        self.missing = missing;
    }

    /// The note for the status, if the mount ought to be there.
    pub(super) fn problem(&self) -> Option<String> {
        let missing = self.missing.as_ref().filter(|mount| !mount.is_noauto());
        missing.map(|mount| self.words(mount))
    }

    /// The note about a mount that systemd does not make at boot.
    pub(super) fn risk(&self) -> Option<String> {
        let missing = self.missing.as_ref().filter(|mount| mount.is_noauto());
        missing.map(|mount| self.words(mount))
    }

    fn words(&self, mount: &MissingMount) -> String {
        let (key, effect, fix) = (self.key, self.effect, mount.fix());
        format!("{key}: {mount}; {effect}: {fix}")
    }
}
