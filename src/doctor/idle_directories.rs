//! The directories of plugins_dir that have no csi.sock: drivers that have not started, or that listen on
//! another socket.

use super::{Finding, Inputs};
use crate::csi::discover::{IdleDirectory, idle_now};
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
    let named = idle.iter().take(MOST_NAMED).map(ToString::to_string);
    let named = named.collect::<Vec<_>>().join(", ");
    let more = match idle.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let found = format!("no csi.sock in {named}{more}");
    Some(Finding::warning(CHECK, found, fix(&idle)))
}

fn fix(idle: &[IdleDirectory]) -> String {
    // The table for the first driver that listens on another socket.
    let table = idle.iter().find_map(|directory| {
        let socket = directory.path.join(directory.sockets.first()?);
        let id = directory.path.file_name()?.to_string_lossy();
        let socket = socket.display();
        Some(format!("[drivers.\"{id}\"] with csi_socket = \"{socket}\""))
    });
    let table = table.unwrap_or_else(|| "[drivers.\"ID\"] with csi_socket".to_owned());
    format!(
        "start the driver; if it listens on another socket, declare it: {table}; if the directory belongs to no driver, remove it, or add its name to discovery.exclude"
    )
}

/// The daemon's note about the same directories.
pub(super) fn is_note(note: &str) -> bool {
    note.ends_with(IDLE_FIX)
}
