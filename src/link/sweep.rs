//! Removes what an earlier run left behind: links of ours that lead nowhere, sockets of ours that
//! nobody listens on, temporary names.
//!
//! Other instances may share the directories, each with drivers of its own. One that is down for a
//! moment, as in a restart, has a link and a socket that look just like leftovers, and the kubelet
//! holds its driver through them. So only two things are leftovers: those of drivers that are ours,
//! and those from before this boot, since which every kubelet and every instance has ended.

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
use crate::boot;
use crate::identity::Identity;
use crate::name::DriverName;
use crate::socket::{Knock, STAGED, knock};

const DEAD_LINK: &str = "a link of ours that leads nowhere";

/// What of the directories is ours.
#[derive(Debug, Default)]
pub(crate) struct Ours {
    /// Drivers that we look after, or did when we last ran.
    pub(crate) names: BTreeSet<DriverName>,
    /// What still holds, and is not touched.
    pub(crate) kept: BTreeSet<PathBuf>,
}

/// A link that leads nowhere and may be another instance's. When its driver turns out to be ours,
/// so does the link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unclaimed {
    pub(crate) name: DriverName,
    pub(crate) link: PathBuf,
}

/// What is left after a sweep.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// What was left to others.
    pub(crate) unclaimed: Vec<Unclaimed>,
    /// What is ours, and the file system did not let us remove.
    pub(crate) failed: Vec<(PathBuf, Identity)>,
}

impl Swept {
    fn remove(&mut self, path: &Path, what: &'static str) {
        if !remove(path, what)
            && let Ok(identity) = Identity::of(path)
        {
            self.failed.push((path.to_owned(), identity));
        }
    }
}

/// Looks through the directories of `layout` once.
pub(crate) fn sweep(layout: &Layout, ours: &Ours) -> Swept {
    // The kernel counts every interrupt of every core for it: only where there is something to judge.
    let booted = LazyCell::new(boot::began);
    let is_old = |path: &Path| booted.is_some_and(|booted| was_there_before(booted, path));
    let mut swept = Swept::default();
    for entry in entries(layout.kubelet_dir()) {
        let link = entry.path();
        if !ours.kept.contains(&link) && is_dead_second_name(layout, ours, &entry) {
            swept.remove(&link, "a socket of ours that nobody listens on");
            continue;
        }
        let Some(name) = dead_link(layout, &link).filter(|_| !ours.kept.contains(&link)) else {
            continue;
        };
        // A link of an earlier boot may have been taken up by an instance that has served since.
        let is_left = is_old(&link) && is_old(&layout.socket(&name));
        if is_left || ours.names.contains(&name) {
            swept.remove(&link, DEAD_LINK);
        } else {
            swept.unclaimed.push(Unclaimed { name, link });
        }
    }
    for entry in entries(layout.registry_dir()) {
        let socket = entry.path();
        let Some(name) = layout.driver_of(&entry.file_name()) else {
            continue;
        };
        let is_ours = ours.names.contains(&name) || is_old(&socket);
        if is_ours && !ours.kept.contains(&socket) && is_dead_socket(&entry) {
            swept.remove(&socket, "a socket of ours that nobody listens on");
        }
    }
    let stages = BTreeSet::from([
        layout.socket_stage(),
        layout.link_stage(),
        layout.registry_dir(),
        layout.kubelet_dir(),
    ]);
    for entry in stages.into_iter().flat_map(entries) {
        let path = entry.path();
        if is_staged(&entry.file_name()) && (is_dead_socket(&entry) || holds_target(layout, &path))
        {
            swept.remove(&path, "a temporary file of ours");
        }
    }
    swept
}

/// Removes a link of ours, if it still leads nowhere.
pub(crate) fn sweep_link(layout: &Layout, link: &Path) {
    if dead_link(layout, link).is_some() {
        remove(link, DEAD_LINK);
    }
}

/// Removes the sockets that a run which was killed left under temporary names in `directory`.
pub(crate) fn sweep_stage(directory: &Path) {
    for entry in entries(directory) {
        if is_staged(&entry.file_name()) && is_dead_socket(&entry) {
            remove(&entry.path(), "a temporary file of ours");
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

/// A socket in the place of a link of ours, which a kubelet that cannot be seen had.
fn is_dead_second_name(layout: &Layout, ours: &Ours, entry: &DirEntry) -> bool {
    let file_name = entry.file_name();
    let is_links = |name: &DriverName| layout.is_link_of(&file_name, name);
    layout.one_directory() && ours.names.iter().any(is_links) && is_dead_socket(entry)
}

fn is_staged(name: &OsStr) -> bool {
    let random = name.as_bytes().strip_prefix(STAGED.as_bytes());
    random.is_some_and(|random| random.len() == 7 && random.iter().all(u8::is_ascii_hexdigit))
}

fn is_dead_socket(entry: &DirEntry) -> bool {
    dead_socket(&entry.path()).is_some()
}

/// The socket at `path`, if one is there that nobody listens on.
pub(crate) fn dead_socket(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    let is_dead = found.file_type().is_socket() && matches!(knock(path), Knock::Dead);
    is_dead.then(|| Identity::from_parts(&found, None))
}

fn holds_target(layout: &Layout, path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| layout.is_target(&target))
}

/// The driver of a link that is a registrar's by its target, when nobody serves the socket that it
/// stands for. The target may be a path that only the kubelet can follow, so the socket is knocked
/// on where we see it.
fn dead_link(layout: &Layout, path: &Path) -> Option<DriverName> {
    let target = fs::read_link(path).ok()?;
    let name = layout.driver_of(target.file_name()?)?;
    let is_dead = matches!(knock(&layout.socket(&name)), Knock::Dead);
    (layout.is_target(&target) && is_dead).then_some(name)
}

/// Nothing that was made since then is at `path`.
fn was_there_before(then: SystemTime, path: &Path) -> bool {
    match fs::symlink_metadata(path).and_then(|found| found.modified()) {
        Ok(made) => made < then,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Tells whether it is gone.
fn remove(path: &Path, what: &'static str) -> bool {
    match fs::remove_file(path) {
        Ok(()) => tracing::info!(path = %path.display(), "removed {what}"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(%error, path = %path.display(), "cannot remove {what}");
            return false;
        }
    }
    true
}
