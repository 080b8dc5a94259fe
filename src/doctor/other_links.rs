//! Links in the kubelet's directory that lead to a socket of ours under another name, such as a link that
//! an operator made by hand.

use std::fs::{self, DirEntry};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use super::{Finding, Inputs};
use crate::disk::directory::inode;
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;
use crate::grpc::proto::control::Driver;
use crate::os::text::quoted_path;

/// Entries that are looked at: a plugins_registry has a few for each plugin.
const MOST_ENTRIES: usize = 1024;

/// A driver as the daemon serves it.
struct Served<'a> {
    id: &'a str,
    name: DriverName,
    socket: PathBuf,
    inode: (u64, u64),
    link: Option<&'a Path>,
}

pub(super) fn check(inputs: &Inputs) -> Vec<Finding> {
    let served: Vec<Served<'_>> = inputs.shown().iter().filter_map(Served::of).collect();
    let directory = &inputs.settings.kubelet.plugins_registry;
    if served.is_empty() || inputs.reach.may_hang(directory) {
        return Vec::new();
    }
    let layout = inputs.settings.layout();
    // The check of the directories reports a directory that cannot be read.
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let findings = entries.take(MOST_ENTRIES).filter_map(|entry| {
        let path = entry.path();
        let driver = served
            .iter()
            .find(|driver| is_other_link(&layout, driver, &entry, inputs))?;
        let fix = format!("rm {}", quoted_path(&path));
        let (path, socket) = (path.display(), driver.socket.display());
        let found = format!(
            "{path} also leads to {socket}; the kubelet takes it for a second plugin with the name \"{}\", and refuses the second link again and again",
            driver.name
        );
        let id = Some(driver.id.to_owned());
        Some(Finding {
            driver: id,
            ..Finding::warning("link", found, fix)
        })
    });
    findings.collect()
}

impl Served<'_> {
    fn of(driver: &Driver) -> Option<Served<'_>> {
        let socket = PathBuf::from(driver.registration_socket.as_ref()?);
        Some(Served {
            id: &driver.id,
            name: DriverName::parse(driver.name.as_ref()?).ok()?,
            inode: inode(&socket)?,
            socket,
            link: driver.link.as_deref().map(Path::new),
        })
    }
}

/// Not the driver's own link. The kubelet ignores hidden names.
fn is_other_link(layout: &Layout, driver: &Served<'_>, entry: &DirEntry, inputs: &Inputs) -> bool {
    let (path, name) = (entry.path(), entry.file_name());
    let is_ours = driver.link == Some(&path) || path == driver.socket;
    let is_hidden = name.as_encoded_bytes().starts_with(b".");
    if is_ours || is_hidden {
        return false;
    }
    let Ok(kind) = entry.file_type() else {
        return false;
    };
    let leads_there = || !inputs.reach.may_hang(&path) && inode(&path) == Some(driver.inode);
    // A target that only a kubelet in a container can follow.
    let names_target = || fs::read_link(&path).is_ok_and(|to| to == layout.target(&driver.name));
    kind.is_symlink() && (leads_there() || names_target()) || kind.is_socket() && leads_there()
}
