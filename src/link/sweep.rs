//! Removes what an earlier run left behind: links of ours that lead nowhere, sockets of ours that
//! nobody listens on, temporary names.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::layout::Layout;
use crate::socket::{Knock, STAGED, knock};

/// Looks through the directories of `layout` once. What is in `kept` is not touched.
pub(crate) fn sweep(layout: &Layout, kept: &BTreeSet<PathBuf>) {
    for entry in entries(layout.kubelet_dir()) {
        if !kept.contains(&entry.path()) && is_dead_link(layout, &entry.path()) {
            remove(&entry.path(), "a link of ours that leads nowhere");
        }
    }
    for entry in entries(layout.registry_dir()) {
        let ours = layout.is_socket_name(entry.file_name().as_bytes());
        if ours && !kept.contains(&entry.path()) && is_dead_socket(&entry) {
            remove(&entry.path(), "a socket of ours that nobody listens on");
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
            remove(&path, "a temporary file of ours");
        }
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

fn is_staged(name: &OsStr) -> bool {
    let random = name.as_bytes().strip_prefix(STAGED.as_bytes());
    random.is_some_and(|random| random.len() == 7 && random.iter().all(u8::is_ascii_hexdigit))
}

fn is_dead_socket(entry: &DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_socket())
        && matches!(knock(&entry.path()), Knock::Dead)
}

fn holds_target(layout: &Layout, path: &Path) -> bool {
    fs::read_link(path).is_ok_and(|target| layout.is_target(&target))
}

/// The link is ours by its target, and nobody serves the socket that it stands for. The target may
/// be a path that only the kubelet can follow, so the socket is knocked on where we see it.
fn is_dead_link(layout: &Layout, path: &Path) -> bool {
    let Ok(target) = fs::read_link(path) else {
        return false;
    };
    let Some(socket) = target.file_name() else {
        return false;
    };
    layout.is_target(&target) && matches!(knock(&layout.registry_dir().join(socket)), Knock::Dead)
}

fn remove(path: &Path, what: &'static str) {
    match fs::remove_file(path) {
        Ok(()) => tracing::info!(path = %path.display(), "removed {what}"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, path = %path.display(), "cannot remove {what}"),
    }
}
