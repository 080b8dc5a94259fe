//! The directories of plugins_dir that have no csi.sock: drivers that have not started, or that listen on
//! another socket.

use std::fmt;
use std::fs;

use super::{Finding, Inputs};
use crate::config::{Key, literal};
use crate::csi::discover::{IdleDirectory, idle_now};
use crate::csi::trust::{Exposure, PIN};
use crate::os::text::enumerated;
use crate::supervisor::IDLE_FIX;

pub(super) const CHECK: &str = "csi.sock missing";
/// Directories that the finding names; it counts the others.
const MOST_NAMED: usize = 20;

/// One finding for all of them. The daemon still knows a driver that it discovered before, and the check
/// of that driver reports it.
pub(super) fn check(inputs: &Inputs) -> Option<Finding> {
    // The checks of the drivers and of plugins_dir report a plugins_dir that cannot be read.
    let mut idle = idle_now(&inputs.settings, &inputs.reach).unwrap_or_default();
    idle.retain(|directory| {
        let id = directory.path.file_name().unwrap_or_default();
        inputs.shown().iter().all(|driver| *driver.id != *id)
    });
    if idle.is_empty() {
        return None;
    }
    let found = format!("no csi.sock in {}", enumerated(idle.iter(), MOST_NAMED));
    Some(Finding::warning(CHECK, found, fix(&idle)))
}

/// The table for a driver that listens on another socket than csi.sock.
struct Table {
    key: Key,
    csi_socket: String,
    /// The place on the way to the socket that other users control.
    exposure: Option<Exposure>,
}

impl Table {
    fn of(directory: &IdleDirectory) -> Option<Table> {
        let socket = directory.path.join(directory.sockets.first()?);
        // A name with control characters is shown escaped, and is no path.
        fs::symlink_metadata(&socket).ok()?;
        Some(Table {
            key: Key::of(&["drivers", directory.path.file_name()?.to_str()?]),
            csi_socket: literal::string(socket.to_str()?),
            exposure: Exposure::of(&socket).ok()?,
        })
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, socket) = (&self.key, &self.csi_socket);
        let Some(exposure) = &self.exposure else {
            return write!(formatter, "declare it: [{key}] with csi_socket = {socket}");
        };
        let users = exposure.users();
        write!(
            formatter,
            "declare it only if you trust {users}: [{key}] with csi_socket = {socket} and name = \"NAME\", {PIN}"
        )
    }
}

fn fix(idle: &[IdleDirectory]) -> String {
    // The table for the first driver that listens on another socket, a driver of root before others.
    let mut tables: Vec<Table> = idle.iter().filter_map(Table::of).collect();
    tables.sort_by_key(|table| table.exposure.is_some());
    let table = tables.first().map(Table::to_string);
    let table = table.unwrap_or_else(|| "declare it: [drivers.\"ID\"] with csi_socket".to_owned());
    format!(
        "start the driver; if it listens on another socket, {table}; if the directory belongs to no driver, remove it, or add its name to discovery.exclude"
    )
}

/// The daemon's note about the same directories.
pub(super) fn is_note(note: &str) -> bool {
    note.ends_with(IDLE_FIX)
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_socket_that_other_users_control_is_offered_last_and_only_to_trust() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        let mut sockets = Vec::new();
        let mut idle = |id: &str, mode: u32| {
            let path: PathBuf = root.join(id);
            fs::create_dir(&path).unwrap();
            sockets.push(UnixListener::bind(path.join("nfs.sock")).unwrap());
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            IdleDirectory::look(&path)
        };
        let (open, closed) = (idle("o\"pen", 0o777), idle("closed", 0o755));
        let fix_of_both = fix(&[open.clone(), closed]);
        let declared = "[drivers.\"closed\"] with csi_socket = ";
        assert!(fix_of_both.contains(declared), "{fix_of_both}");
        assert!(!fix_of_both.contains("trust"), "{fix_of_both}");
        let path = open.path.display().to_string();
        let fix = fix(&[open]);
        let trust = format!("only if you trust the users that can write to {path}");
        let table = format!(
            r#"[drivers."o\"pen"] with csi_socket = "{}/nfs.sock" and name = "NAME""#,
            path.replace('"', "\\\"")
        );
        for words in [trust, table] {
            assert!(fix.contains(&words), "{words:?} is not in {fix}");
        }
    }
}
