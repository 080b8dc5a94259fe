//! The files in the node's directories, and those that should not exist.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use bed::Layout;

use crate::party::Party;
use crate::scene::{CONTROL_SOCKET, HTTP_SOCKET, STATE_FILE, Scene};

impl Scene {
    /// Files that are neither the registrar's present files nor the test's own; and files that are
    /// missing or wrong.
    pub(crate) fn strays(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut ours = BTreeSet::new();
        for party in &self.parties {
            let name = party.name();
            let link = self.node.link(&name);
            let target = match self.terms.layout {
                Layout::TwoDirectories => self.node.reg_socket(&name),
                Layout::OneDirectory => PathBuf::from(format!(".{name}-reg.sock")),
            };
            match fs::read_link(&link) {
                Ok(held) if held == target => {}
                other => faults.push(format!("{} holds {other:?}", link.display())),
            }
            // A mount may have hidden the file, and no process listens on it.
            if let Err(error) = UnixStream::connect(self.node.reg_socket(&name)) {
                faults.push(format!("no process serves {name}: {error}"));
            }
            ours.extend([link, self.node.reg_socket(&name)]);
        }
        if let Err(error) = UnixStream::connect(self.in_runtime_dir(HTTP_SOCKET)) {
            faults.push(format!("no process serves http: {error}"));
        }
        for file in [CONTROL_SOCKET, HTTP_SOCKET, "lock", STATE_FILE] {
            ours.insert(self.in_runtime_dir(file));
        }
        let kubelet = self.node.kubelet_root();
        ours.extend(["plugins_registry", "pod-resources"].map(|name| kubelet.join(name)));
        let foreign = self
            .directories()
            .into_iter()
            .flat_map(|directory| entries(&directory))
            .filter(|path| !ours.contains(path) && !self.sentinels.contains(path))
            .filter(|path| !self.was_out_of_reach(path));
        faults.extend(foreign.map(|path| format!("{} is a stray", path.display())));
        let missing = ours.iter().filter(|path| path.symlink_metadata().is_err());
        faults.extend(missing.map(|path| format!("{} is missing", path.display())));
        faults
    }

    /// A socket that the registrar gave up while a mount hid it. No process listens on it, and the next
    /// start removes it.
    fn was_out_of_reach(&self, path: &Path) -> bool {
        let mut names = self.parties.iter().flat_map(Party::names);
        self.registry_was_hidden
            && names.any(|name| self.node.reg_socket(&name) == path)
            && UnixStream::connect(path).is_err()
    }

    fn directories(&self) -> BTreeSet<PathBuf> {
        BTreeSet::from([
            self.node.registry_dir(),
            self.node.plugins_registry(),
            self.node.kubelet_root(),
            self.node.runtime_dir(),
        ])
    }

    /// All files of the directories, for a report.
    pub(crate) fn listings(&self) -> String {
        let mut text = String::new();
        for directory in self.directories() {
            text += &format!("{}:\n", directory.display());
            for path in entries(&directory) {
                let name = path.file_name().map(OsString::from).unwrap_or_default();
                let target = fs::read_link(&path).map(|to| format!(" -> {}", to.display()));
                text += &format!("  {}{}\n", name.display(), target.unwrap_or_default());
            }
        }
        text
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}
