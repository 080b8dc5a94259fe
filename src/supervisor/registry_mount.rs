//! The mount that is missing above registry_dir. The daemon serves its sockets there all the same, for
//! drivers on other file systems need them; but the mount hides them later.

use std::path::Path;

use crate::disk::directory::inode;
use crate::disk::missing_mount::MissingMount;
use crate::disk::reach::Reach;

/// What a look at registry_dir has shown.
#[derive(Default)]
pub(super) struct RegistryMount {
    /// Device and inode of registry_dir at the last look. They change when registry_dir is created, and
    /// when a file system is mounted or unmounted above it.
    directory: Option<(u64, u64)>,
    missing: Option<MissingMount>,
}

impl RegistryMount {
    /// Looks for a missing mount if registry_dir is another directory than before. Otherwise nothing is
    /// read but the directory itself, because this is called at each slow look.
    pub(super) fn look(&mut self, registry_dir: &Path, reach: &Reach) {
        // A mount that may hang is a mount.
        if reach.may_hang(registry_dir) {
            *self = RegistryMount::default();
            return;
        }
        let directory = inode(registry_dir);
        if directory == self.directory && self.missing.is_none() {
            return;
        }
        self.directory = directory;
        let missing = MissingMount::above(registry_dir);
        if missing == self.missing {
            return;
        }
        let registry_dir = registry_dir.display();
        match (&missing, &self.missing) {
            (Some(mount), _) => {
                let words = words(mount);
                tracing::warn!(%registry_dir, "{words}");
            }
            (None, Some(mount)) => {
                let point = mount.point.display();
                tracing::info!(%registry_dir, "registry_dir: {point} is mounted");
            }
            (None, None) => {}
        }
        self.missing = missing;
    }

    /// The note for the status.
    pub(super) fn note(&self) -> Option<String> {
        self.missing.as_ref().map(words)
    }
}

fn words(mount: &MissingMount) -> String {
    let fix = mount.fix();
    format!(
        "registry_dir: {mount}; the mount will hide the sockets that are served there until then: {fix}"
    )
}
