//! Finds drivers that no table of the configuration names: each directory in plugins_dir with a csi.sock.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::config::{Settings, csi_socket};
use crate::disk::directory::is_missing;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::os::text::{garbles, printable};

/// A driver's id: the name of its table or of its directory.
pub(crate) type DriverId = Arc<str>;

/// A directory of plugins_dir that has no csi.sock: its driver has not started, has left it behind, or listens
/// under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IdleDirectory {
    pub(crate) path: PathBuf,
    /// The names of other sockets in it, a few at most.
    pub(crate) sockets: Vec<String>,
    /// When an entry was last added or removed.
    changed: Option<SystemTime>,
}

/// Entries of a directory that are looked at: a driver has a handful of files beside its socket.
const MOST_ENTRIES: usize = 256;
/// Other sockets that are named.
const MOST_SOCKETS: usize = 3;
const KUBELETS_OWN: &str = "kubernetes.io";
/// At the root of an ext4 file system.
const LOST_AND_FOUND: &str = "lost+found";

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
            && !is_kubelets_own(settings, id)
            && is_id(id)
    }
}

/// The drivers that a daemon with these settings would discover now, except those that may hang.
pub(crate) fn found_now(settings: &Settings, reach: &Reach) -> io::Result<Vec<String>> {
    let mut found = discoverable_now(settings, reach)?;
    found.retain(|id| exists(&csi_socket(&settings.plugins_dir, id)));
    Ok(found.into_iter().map(|id| id.to_string()).collect())
}

/// The directories of plugins_dir that have no csi.sock, except those that may hang.
pub(crate) fn idle_now(settings: &Settings, reach: &Reach) -> io::Result<Vec<IdleDirectory>> {
    let mut idle = discoverable_now(settings, reach)?;
    idle.retain(|id| !exists(&csi_socket(&settings.plugins_dir, id)));
    let idle = idle.iter().map(|id| settings.plugins_dir.join(&**id));
    Ok(idle.map(|path| IdleDirectory::look(&path)).collect())
}

/// The directories of plugins_dir that may hang, and that the functions above leave out.
pub(crate) fn unseen_now(settings: &Settings, reach: &Reach) -> io::Result<Vec<String>> {
    let mut unseen = named_now(settings, reach)?;
    unseen.retain(|id| reach.may_hang(&csi_socket(&settings.plugins_dir, id)));
    Ok(unseen.into_iter().map(|id| id.to_string()).collect())
}

fn discoverable_now(settings: &Settings, reach: &Reach) -> io::Result<Vec<DriverId>> {
    let mut ids = named_now(settings, reach)?;
    ids.retain(|id| !reach.may_hang(&csi_socket(&settings.plugins_dir, id)));
    Ok(ids)
}

/// The directories of plugins_dir that discovery may use; none if plugins_dir itself may hang.
fn named_now(settings: &Settings, reach: &Reach) -> io::Result<Vec<DriverId>> {
    let directory = &settings.plugins_dir;
    if !settings.discovery.enabled || reach.may_hang(directory) {
        return Ok(Vec::new());
    }
    let discoverable = Discoverable::of(settings);
    let ids = plugins(directory, reach)?.unwrap_or_default().into_iter();
    Ok(ids.filter(|id| discoverable.has(settings, id)).collect())
}

/// The kubelet keeps the volumes of drivers in `plugins/kubernetes.io` of its root, beside the directories
/// of drivers.
fn is_kubelets_own(settings: &Settings, id: &str) -> bool {
    id == KUBELETS_OWN && settings.plugins_dir == settings.kubelet_root().join("plugins")
}

impl IdleDirectory {
    /// Looks for sockets in the directory. A directory that cannot be read counts as empty.
    pub(crate) fn look(path: &Path) -> IdleDirectory {
        // Before the entries are read: a change meanwhile is looked at again.
        let changed = changed(path);
        let entries = fs::read_dir(path).into_iter().flatten().take(MOST_ENTRIES);
        let is_socket = |entry: &DirEntry| entry.file_type().is_ok_and(|kind| kind.is_socket());
        let sockets = entries.flatten().filter(is_socket);
        let mut sockets: Vec<String> = sockets
            .map(|socket| printable(&socket.file_name().to_string_lossy()))
            .collect();
        sockets.sort();
        sockets.truncate(MOST_SOCKETS);
        IdleDirectory {
            path: path.to_owned(),
            sockets,
            changed,
        }
    }

    /// No entry was added or removed since, so that nothing has to be read again.
    pub(crate) fn is_as_before(&self, path: &Path) -> bool {
        self.path == path && self.changed.is_some() && self.changed == changed(path)
    }
}

fn changed(directory: &Path) -> Option<SystemTime> {
    fs::metadata(directory).ok()?.modified().ok()
}

impl fmt::Display for IdleDirectory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.path.display())?;
        if !self.sockets.is_empty() {
            let sockets = self.sockets.join(", ");
            write!(formatter, " (it contains {sockets})")?;
        }
        Ok(())
    }
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

/// A shell's `*` does not match hidden names. A name that would garble a log is no id either, nor is a name
/// that fsck owns.
fn is_id(name: &str) -> bool {
    !name.starts_with('.') && name != LOST_AND_FOUND && !name.contains(garbles)
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
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::config::RootDir;

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
    fn a_directory_without_csi_sock_is_idle_and_another_socket_in_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let plugins_dir = dir.path().join("plugins");
        for id in [
            "well",
            "empty",
            "other",
            "declared",
            "excluded",
            "kubernetes.io",
        ] {
            fs::create_dir_all(plugins_dir.join(id)).unwrap();
        }
        fs::write(plugins_dir.join("well/csi.sock"), "").unwrap();
        fs::write(plugins_dir.join("empty/log"), "").unwrap();
        let _other = UnixListener::bind(plugins_dir.join("other/nfs.sock")).unwrap();
        let mut settings = Settings {
            plugins_dir: plugins_dir.clone(),
            ..Settings::default()
        };
        settings.discovery.enabled = true;
        settings.discovery.exclude = vec!["excluded".to_owned()];
        let declared = settings.driver("declared");
        settings.drivers.insert("declared".to_owned(), declared);
        let idle = |settings: &Settings| {
            let idle = idle_now(settings, &Reach::default()).unwrap();
            let shown: Vec<String> = idle.iter().map(ToString::to_string).collect();
            shown
                .join("\n")
                .replace(&*plugins_dir.to_string_lossy(), "")
        };
        let both = "/empty\n/other (it contains nfs.sock)";
        assert_eq!(idle(&settings), both.replace("\n", "\n/kubernetes.io\n"));
        settings.kubelet.root_dir = RootDir::Path(dir.path().to_owned());
        assert_eq!(idle(&settings), both);
        settings.discovery.enabled = false;
        assert_eq!(idle(&settings), "");
    }

    #[test]
    fn hidden_names_and_names_that_garble_a_log_are_no_ids() {
        assert!(is_id("nfs.csi.k8s.io") && is_id("a b"));
        assert!(!is_id(".staging") && !is_id("a\nb") && !is_id("a\u{202e}b"));
        assert!(!is_id("lost+found"));
    }
}
