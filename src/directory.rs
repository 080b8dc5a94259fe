//! A directory of our own making.

use std::fs::{self, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::fcntl::OFlag;

/// Makes one that is missing, with all that is missing above it. Who may pass through is not left to the unit's UMask=.
pub(crate) fn make(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    if let Some(parent) = directory.parent() {
        make(parent)?;
    }
    match fs::create_dir(directory) {
        Ok(()) => {}
        Err(_) if directory.is_dir() => return Ok(()),
        Err(error) => return Err(error),
    }
    // Of the very directory: a link may have taken its place.
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW;
    let made = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits())
        .open(directory)?;
    made.set_permissions(Permissions::from_mode(0o755))
}
