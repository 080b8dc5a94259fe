//! Finds drivers that no table of the configuration names: each directory in plugins_dir with a csi.sock.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, DirEntry};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{Settings, csi_socket};
use crate::disk::directory::is_missing;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::os::text::garbles;

/// A driver's id: the name of its table or of its directory.
pub(crate) type DriverId = Arc<str>;

/// Tells which ids discovery may use: holds the sockets that the tables of one configuration name. A table
/// that names an id or a socket takes precedence.
#[derive(Default)]
pub(crate) struct Discoverable(HashSet<PathBuf>);

impl Discoverable {
    pub(crate) fn of(settings: &Settings) -> Discoverable {
        let tables = settings.drivers.values();
        Discoverable(tables.map(|driver| driver.csi_socket.clone()).collect())
    }

    /// A directory of this name is a driver when it has a csi.sock.
    pub(crate) fn has(&self, settings: &Settings, id: &str) -> bool {
        settings.discovery.enabled
            && !settings.drivers.contains_key(id)
            && !self.0.contains(&csi_socket(&settings.plugins_dir, id))
            && !settings.discovery.excludes(id)
            && is_id(id)
    }
}

/// The drivers that a daemon with these settings would discover now, except those that may hang.
pub(crate) fn found_now(settings: &Settings, reach: &Reach) -> io::Result<Vec<String>> {
    let directory = &settings.plugins_dir;
    if !settings.discovery.enabled || reach.may_hang(directory) {
        return Ok(Vec::new());
    }
    let discoverable = Discoverable::of(settings);
    let plugins = plugins(directory, reach)?.unwrap_or_default();
    let found = plugins.into_iter().filter(|id| {
        let socket = csi_socket(directory, id);
        discoverable.has(settings, id) && !reach.may_hang(&socket) && exists(&socket)
    });
    Ok(found.map(|id| id.to_string()).collect())
}

/// The names of the drivers that are configured or were found. A driver whose name is not known yet
/// mostly has its id for a name.
pub(crate) fn names_of(
    settings: &Settings,
    found: Vec<String>,
) -> impl Iterator<Item = DriverName> {
    let drivers = settings.drivers.iter();
    let given = drivers.map(|(id, driver)| match &driver.name {
        Some(name) => name.to_string(),
        None => id.clone(),
    });
    given.chain(found).flat_map(DriverName::try_from)
}

pub(crate) fn exists(socket: &Path) -> bool {
    fs::symlink_metadata(socket).is_ok()
}

/// The names of all directories in plugins_dir; none when plugins_dir itself is missing.
pub(crate) fn plugins(directory: &Path, reach: &Reach) -> io::Result<Option<BTreeSet<DriverId>>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if is_missing(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut names = BTreeSet::new();
    for entry in entries {
        let entry = entry?;
        if is_directory(&entry, reach)
            && let Some(name) = entry.file_name().to_str()
        {
            names.insert(name.into());
        }
    }
    Ok(Some(names))
}

/// A shell's `*` does not match hidden names. A name that would garble a log is no id either.
fn is_id(name: &str) -> bool {
    !name.starts_with('.') && !name.contains(garbles)
}

/// A link to a directory counts as a directory, and so does a path that may hang.
fn is_directory(entry: &DirEntry, reach: &Reach) -> bool {
    reach.may_hang(&entry.path())
        || entry.file_type().is_ok_and(|kind| {
            kind.is_dir()
                || kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|to| to.is_dir())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_and_links_to_them_are_plugins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path();
        fs::create_dir(path.join("a")).unwrap();
        fs::write(path.join("file"), "").unwrap();
        std::os::unix::fs::symlink("a", path.join("link")).unwrap();
        std::os::unix::fs::symlink("nowhere", path.join("dangling")).unwrap();
        let names: Vec<String> = plugins(path, &Reach::default())
            .unwrap()
            .unwrap()
            .iter()
            .map(|id| id.to_string())
            .collect();
        assert_eq!(names, ["a", "link"]);
        assert_eq!(
            plugins(&path.join("missing"), &Reach::default()).unwrap(),
            None
        );
        assert_eq!(
            plugins(&path.join("file"), &Reach::default()).unwrap(),
            None
        );
    }

    #[test]
    fn hidden_names_and_names_that_garble_a_log_are_no_ids() {
        assert!(is_id("nfs.csi.k8s.io") && is_id("a b"));
        assert!(!is_id(".staging") && !is_id("a\nb") && !is_id("a\u{202e}b"));
    }
}
