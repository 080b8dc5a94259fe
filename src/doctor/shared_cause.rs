//! A cause that keeps several drivers from having a csi.sock: a file system that is not mounted, or a
//! plugins_dir that does not exist. It is a single finding instead of a finding for each driver.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::{Finding, Inputs};
use crate::disk::directory::{is_missing, nearest};
use crate::disk::missing_mount::MissingMount;
use crate::disk::reach::Reach;
use crate::os::text::enumerated;

pub(super) const MOUNT: &str = "mount";
pub(super) const PLUGINS_DIR: &str = "plugins_dir";
/// Drivers that a finding names; it counts the others.
const MOST_NAMED: usize = 5;

/// A finding, and the drivers that have nothing else to say.
pub(super) struct SharedCause {
    pub(super) finding: Finding,
    /// The ids of drivers whose csi.sock is missing for this cause.
    pub(super) drivers: BTreeSet<String>,
}

/// The paths of the configuration that are below a mount point.
#[derive(Default)]
struct Below {
    keys: Vec<&'static str>,
    drivers: BTreeSet<String>,
    /// A path does not exist that the registrar does not create.
    is_needed: bool,
}

/// The causes that drivers share, of these drivers.
pub(super) fn find(inputs: &Inputs, drivers: &BTreeSet<String>) -> Vec<SharedCause> {
    let sockets = drivers
        .iter()
        .map(|id| (id, inputs.settings.driver(id).csi_socket));
    let mut absent: BTreeMap<String, PathBuf> = sockets
        .filter(|(_, socket)| is_absent(socket, &inputs.reach))
        .map(|(id, socket)| (id.clone(), socket))
        .collect();
    let mut causes = missing_mounts(inputs, &absent);
    absent.retain(|id, _| causes.iter().all(|cause| !cause.drivers.contains(id)));
    if missing_above(&inputs.settings.plugins_dir, &inputs.reach).is_none() {
        causes.extend(no_plugins_dir(inputs, absent));
    }
    causes
}

fn missing_mounts(inputs: &Inputs, absent: &BTreeMap<String, PathBuf>) -> Vec<SharedCause> {
    let (settings, reach) = (&inputs.settings, &inputs.reach);
    let kubelet_dir = &settings.kubelet.registry_dir;
    let plugins_dir = Some(&settings.plugins_dir).filter(|_| settings.discovery.enabled);
    // The registrar creates registry_dir wherever it is.
    let directories = [
        ("plugins_dir", plugins_dir, true),
        ("registry_dir", Some(&settings.registry_dir), false),
        ("kubelet.registry_dir", Some(kubelet_dir), true),
    ];
    let mut missing: Vec<(MissingMount, Below)> = Vec::new();
    let mut below = |path: &Path, add: &dyn Fn(&mut Below)| {
        let Some(mount) = missing_above(path, reach) else {
            return;
        };
        let known = missing.iter().position(|(known, _)| *known == mount);
        let index = known.unwrap_or_else(|| {
            missing.push((mount, Below::default()));
            missing.len() - 1
        });
        add(&mut missing[index].1);
    };
    for (key, path, is_needed) in directories {
        if let Some(path) = path {
            let is_needed = is_needed && is_absent(path, reach);
            below(path, &|below| {
                below.keys.push(key);
                below.is_needed |= is_needed;
            });
        }
    }
    for (id, socket) in absent {
        below(socket, &|below| {
            below.drivers.insert(id.clone());
            below.is_needed = true;
        });
    }
    missing.into_iter().map(not_mounted).collect()
}

/// A file system that nothing needs yet is a warning: it may be meant for something else.
fn not_mounted((mount, below): (MissingMount, Below)) -> SharedCause {
    let sockets = (!below.drivers.is_empty()).then(|| sockets_of(&below.drivers));
    let keys = below.keys.iter().map(|key| (*key).to_owned());
    let paths: Vec<String> = keys.chain(sockets).collect();
    let found = format!("{mount}; below it: {}", paths.join(", "));
    let level = if below.is_needed {
        Finding::fault
    } else {
        Finding::warning
    };
    SharedCause {
        finding: level(MOUNT, found, mount.fix()),
        drivers: below.drivers,
    }
}

fn no_plugins_dir(inputs: &Inputs, absent: BTreeMap<String, PathBuf>) -> Option<SharedCause> {
    let settings = &inputs.settings;
    let directory = &settings.plugins_dir;
    let in_it = absent
        .into_iter()
        .filter(|(_, socket)| socket.starts_with(directory));
    let drivers: BTreeSet<String> = in_it.map(|(id, _)| id).collect();
    let is_used = settings.discovery.enabled || !drivers.is_empty();
    if !is_used || !is_absent(directory, &inputs.reach) {
        return None;
    }
    let nearest = nearest(directory).display();
    let shown = directory.display();
    let mut found = format!(
        "plugins_dir = \"{shown}\" does not exist; the nearest directory that exists is {nearest}"
    );
    let level = if drivers.is_empty() {
        Finding::warning
    } else {
        found += &format!("; missing: {}", sockets_of(&drivers));
        Finding::fault
    };
    let fix = "set plugins_dir to the directory of the drivers, then: node-storage-driver-registrar reload; or start the drivers, if they create it";
    let finding = level(PLUGINS_DIR, found, fix);
    Some(SharedCause { finding, drivers })
}

fn sockets_of(drivers: &BTreeSet<String>) -> String {
    format!("csi.sock of {}", enumerated(drivers.iter(), MOST_NAMED))
}

fn missing_above(path: &Path, reach: &Reach) -> Option<MissingMount> {
    // A mount that may hang is a mount.
    (!reach.may_hang(path)).then(|| MissingMount::above(path))?
}

/// A path that may hang counts as existing: the check of its driver reports it.
fn is_absent(path: &Path, reach: &Reach) -> bool {
    !reach.may_hang(path) && fs::metadata(path).is_err_and(|error| is_missing(&error))
}
