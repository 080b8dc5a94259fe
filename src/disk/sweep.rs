//! Removes the leftovers of an earlier run: links of ours that lead nowhere, sockets of ours without a
//! listener, and files with temporary names.
//!
//! Other instances may share the directories, each with drivers of its own. The link and the socket of an
//! instance that restarts look like leftovers, and the kubelet keeps its driver registered through them.
//! So only two kinds of files are leftovers: those of our own drivers, and those from before this boot,
//! because every kubelet and every instance of then has ended.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::layout::Layout;
use crate::disk::identity::Identity;
use crate::disk::name::DriverName;
use crate::disk::replace::{self, STAGED};
use crate::disk::socket::{ListenerProbe, probe};
use crate::os::boot;

const DEAD_LINK: &str = "a link of ours that leads nowhere";
const DEAD_SOCKET: &str = "a socket of ours without a listener";
const TEMPORARY: &str = "a temporary file of ours";

/// Which files in the directories are ours.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    /// The drivers of this instance, and those of its last run.
    pub(crate) names: BTreeSet<DriverName>,
    /// Files that are still in use, and stay.
    pub(crate) kept: BTreeSet<PathBuf>,
    /// Drivers whose volumes are in use: all their files stay.
    pub(crate) in_use: BTreeSet<DriverName>,
}

/// A link that leads nowhere and may belong to another instance. It is ours if its driver turns out to be
/// ours.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unclaimed {
    pub(crate) name: DriverName,
    pub(crate) link: PathBuf,
}

/// The files that a sweep did not remove.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(crate) unowned_links: Vec<Unclaimed>,
    /// Links of drivers whose volumes are in use.
    pub(crate) links_in_use: Vec<Unclaimed>,
    /// Files of ours that the file system did not let us remove.
    pub(crate) failed: Vec<(PathBuf, Identity)>,
}

impl Ours {
    /// The driver in use whose link this is.
    fn used_by(&self, layout: &Layout, link: &Path) -> Option<DriverName> {
        let mut in_use = self.in_use.iter();
        in_use.find(|name| layout.link(name) == link).cloned()
    }
}

impl Swept {
    fn remove(&mut self, path: &Path, identity: Identity, what: &'static str) {
        if !remove(path, &identity, what) {
            self.failed.push((path.to_owned(), identity));
        }
    }
}

/// Looks through the directories of `layout` once.
pub(crate) fn sweep(layout: &Layout, ours: &Ours) -> Swept {
    // Read only when needed: for /proc/stat the kernel counts every interrupt of every core.
    let booted = LazyCell::new(boot::began);
    let is_old = |path: &Path| booted.is_some_and(|booted| was_there_before(booted, path));
    let mut swept = Swept::default();
    for entry in entries(layout.plugins_registry()) {
        let link = entry.path();
        if ours.kept.contains(&link) {
            continue;
        }
        if let Some(name) = ours.used_by(layout, &link) {
            if dead_link(layout, &link).is_some() {
                swept.links_in_use.push(Unclaimed { name, link });
            }
            continue;
        }
        let Some((name, identity)) = dead_link(layout, &link) else {
            continue;
        };
        // An instance of this boot may use a link of an earlier boot: then its socket is new.
        let is_left = is_old(&link) && is_old(&layout.socket(&name));
        if is_left || ours.names.contains(&name) {
            swept.remove(&link, identity, DEAD_LINK);
        } else {
            swept.unowned_links.push(Unclaimed { name, link });
        }
    }
    for entry in entries(layout.registry_dir()) {
        let socket = entry.path();
        let Some(name) = layout.driver_of(&entry.file_name()) else {
            continue;
        };
        // Asked before and after the probe: another instance may replace the socket in between.
        let is_ours = || ours.names.contains(&name) || is_old(&socket);
        if ours.kept.contains(&socket) || ours.in_use.contains(&name) || !is_ours() {
            continue;
        }
        if let Some(identity) = dead_socket(&socket).filter(|_| is_ours()) {
            swept.remove(&socket, identity, DEAD_SOCKET);
        }
    }
    let stages = BTreeSet::from([
        layout.socket_stage(),
        layout.link_stage(),
        layout.registry_dir(),
        layout.plugins_registry(),
    ]);
    for entry in stages.into_iter().flat_map(entries) {
        let path = entry.path();
        if let Some(identity) = staged_socket(&entry).or_else(|| staged_link(layout, &entry)) {
            swept.remove(&path, identity, TEMPORARY);
        }
    }
    swept
}

/// Which of these drivers have a link that leads nowhere and that was made since the boot, so that a kubelet
/// which runs may hold the driver through it.
pub(crate) fn linked_since_boot(
    layout: &Layout,
    names: &BTreeSet<DriverName>,
) -> BTreeSet<DriverName> {
    let booted = LazyCell::new(boot::began);
    let linked = entries(layout.plugins_registry())
        .into_iter()
        .filter_map(|entry| {
            let link = entry.path();
            let (name, _) = dead_link(layout, &link).filter(|(name, _)| names.contains(name))?;
            let is_new = booted.is_none_or(|booted| !was_there_before(booted, &link));
            is_new.then_some(name)
        });
    linked.collect()
}

/// Removes a link of ours if it still leads nowhere.
pub(crate) fn sweep_link(layout: &Layout, link: &Path) {
    if let Some((_, identity)) = dead_link(layout, link) {
        remove(link, &identity, DEAD_LINK);
    }
}

/// Removes the sockets with temporary names that a killed run left in `directory`.
pub(crate) fn sweep_stage(directory: &Path) {
    for entry in entries(directory) {
        if let Some(identity) = staged_socket(&entry) {
            remove(&entry.path(), &identity, TEMPORARY);
        }
    }
}

fn entries(directory: &Path) -> Vec<DirEntry> {
    match fs::read_dir(directory) {
        Ok(entries) => entries.filter_map(Result::ok).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            tracing::warn!(%error, directory = %directory.display(), "cannot look for leftovers");
            Vec::new()
        }
    }
}

fn is_staged(name: &OsStr) -> bool {
    let random = name.as_bytes().strip_prefix(STAGED.as_bytes());
    random.is_some_and(|random| random.len() == 7 && random.iter().all(u8::is_ascii_hexdigit))
}

fn staged_socket(entry: &DirEntry) -> Option<Identity> {
    is_staged(&entry.file_name())
        .then(|| dead_socket(&entry.path()))
        .flatten()
}

/// A link of ours that a kill kept from its place, or a dead link that ours has replaced.
fn staged_link(layout: &Layout, entry: &DirEntry) -> Option<Identity> {
    let path = entry.path();
    let link = Identity::of(&path).ok()?;
    let target = link.target().filter(|_| is_staged(&entry.file_name()))?;
    let is_left = layout.is_target(target)
        // Each file that ours replaces gets its name here by a rename.
        || link.has_changed() && matches!(probe(&path), ListenerProbe::Dead);
    is_left.then_some(link)
}

/// The socket at `path`, if it has no listener.
pub(crate) fn dead_socket(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    let is_dead = found.file_type().is_socket() && matches!(probe(path), ListenerProbe::Dead);
    is_dead.then(|| Identity::from_parts(&found, None))
}

/// The driver of a link that a registrar made, as its target shows, if the driver's socket has no listener.
/// Only the kubelet may be able to follow the target, so this probes the socket by our own path.
fn dead_link(layout: &Layout, path: &Path) -> Option<(DriverName, Identity)> {
    let link = Identity::of(path).ok()?;
    let target = link.target().filter(|target| layout.is_target(target))?;
    let name = layout.driver_of(target.file_name()?)?;
    let is_dead = matches!(probe(&layout.socket(&name)), ListenerProbe::Dead);
    is_dead.then_some((name, link))
}

/// The file at `path`, if any, was made before `then`.
fn was_there_before(then: SystemTime, path: &Path) -> bool {
    match fs::symlink_metadata(path).and_then(|found| found.modified()) {
        Ok(made) => made < then,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Removes the file that was seen at `path`, and no other. Says whether it is gone.
fn remove(path: &Path, identity: &Identity, what: &'static str) -> bool {
    match replace::remove(path, identity) {
        Ok(true) => tracing::info!(path = %path.display(), "removed {what}"),
        Ok(false) => {}
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot remove {what}");
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A kill between the exchange and the removal leaves the link that was replaced, of whatever origin,
    /// under our temporary name.
    #[test]
    fn a_dead_link_that_was_replaced_is_swept_and_other_files_with_such_a_name_stay() {
        let dir = tempfile::tempdir().unwrap();
        let (registry, kubelet) = (dir.path().join("registry"), dir.path().join("kubelet"));
        let layout = Layout::new(&registry, &kubelet, &registry);
        fs::create_dir(&kubelet).unwrap();
        let socket = dir.path().join("foreign.sock");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let path = |name: &str| kubelet.join(name);
        let renamed = |target: &Path, name: &str| {
            symlink(target, path("link")).unwrap();
            // The clock of a file's times is coarse.
            std::thread::sleep(std::time::Duration::from_millis(20));
            fs::rename(path("link"), path(name)).unwrap();
        };
        renamed(Path::new("/nowhere"), ".nr0123abc");
        renamed(&socket, ".nr4567def");
        symlink("/nowhere", path(".nr1111111")).unwrap();
        fs::write(path(".nr89abcde"), "").unwrap();
        sweep(&layout, &Ours::default());
        assert!(!path(".nr0123abc").is_symlink());
        assert!(path(".nr4567def").is_symlink() && path(".nr1111111").is_symlink());
        assert!(path(".nr89abcde").exists());
    }

    /// Another instance may come up between the look at its link and the removal.
    #[test]
    fn a_link_that_was_made_after_the_look_is_not_swept() {
        let dir = tempfile::tempdir().unwrap();
        let registry = dir.path().join("registry");
        let layout = Layout::new(&registry, &dir.path().join("kubelet"), &registry);
        fs::create_dir(layout.plugins_registry()).unwrap();
        let name = DriverName::parse("a.test").unwrap();
        let link = layout.link(&name);
        symlink(layout.target(&name), &link).unwrap();
        let (_, looked_at) = dead_link(&layout, &link).unwrap();
        fs::remove_file(&link).unwrap();
        symlink(layout.target(&name), &link).unwrap();
        let mut swept = Swept::default();
        swept.remove(&link, looked_at, DEAD_LINK);
        assert!(link.is_symlink(), "it is another's");
        assert!(swept.failed.is_empty());
        let (_, looked_at) = dead_link(&layout, &link).unwrap();
        swept.remove(&link, looked_at, DEAD_LINK);
        assert!(!link.is_symlink());
    }
}
