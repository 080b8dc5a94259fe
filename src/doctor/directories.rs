//! The directories: they exist, we may write to them, and no other user may.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access, getuid};

use super::csi_socket::exposed;
use super::kubelets::KubeletFindings;
use super::{AS_ROOT, Finding, Inputs};
use crate::csi::trust::Exposure;
use crate::disk::directory::{self, is_missing};
use crate::os::text::quoted_path;

/// The check of plugins_dir.
pub(super) const PLUGINS_DIR: &str = "plugins_dir";

/// plugins_dir is missing: a fault for the drivers that belong below it, and a warning for discovery alone. The
/// registrar never creates it.
pub(super) fn missing_plugins_dir(inputs: &Inputs, drivers: &BTreeSet<String>) -> Option<Finding> {
    let Inputs {
        settings, reach, ..
    } = inputs;
    let plugins_dir = &settings.plugins_dir;
    let is_needed = drivers.iter().any(|id| inputs.is_in_plugins_dir(id));
    if !is_needed && !settings.discovery.enabled || reach.may_hang(plugins_dir) {
        return None;
    }
    let found = directory::missing_words(plugins_dir)?;
    let fix = "mount its file system, or set plugins_dir to the drivers' directory, or start the drivers, if they create it";
    Some(match is_needed {
        true => Finding::fault(PLUGINS_DIR, found, fix),
        false => Finding::warning(PLUGINS_DIR, found, fix),
    })
}

pub(super) fn check(inputs: &Inputs, kubelets: &KubeletFindings) -> Vec<Finding> {
    let settings = &inputs.settings;
    let mut findings = Vec::new();
    // The daemon creates a missing registry_dir with its parents.
    let mut parents = settings.registry_dir.ancestors();
    let nearest = parents.find_map(|path| look("registry_dir", path, "").ok());
    findings.extend(nearest.flatten());
    findings.extend(owner(&settings.registry_dir));
    if settings.discovery.enabled {
        let sockets = settings.plugins_dir.join("*/csi.sock");
        let fix = |exposure: &Exposure, _: &Path| exposure.fix("ID");
        findings.extend(exposed(&sockets, &inputs.reach, fix));
    }
    let plugins_registry = &settings.kubelet.plugins_registry;
    match look(
        "kubelet directory",
        plugins_registry,
        " and restart the kubelet",
    ) {
        Ok(fault) => findings.extend(fault),
        Err(_) => findings.push(kubelets.why_no_directory(plugins_registry)),
    }
    if plugins_registry.is_dir() {
        findings.extend(owner(plugins_registry));
    }
    findings
}

/// The reason why we cannot use this directory; an error when it does not exist.
fn look(check: &'static str, path: &Path, then: &str) -> io::Result<Option<Finding>> {
    let shown = path.display();
    let (found, fix) = match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => return Ok(writable(check, path)),
        Ok(_) => (
            format!("{shown} is not a directory"),
            format!("move it away{then}: {}", move_away(path)),
        ),
        Err(error) if is_missing(&error) => return Err(error),
        Err(error) => (
            format!("cannot look at {shown}: {error}"),
            AS_ROOT.to_owned(),
        ),
    };
    Ok(Some(Finding::fault(check, found, fix)))
}

/// The command that moves a file out of the way.
pub(super) fn move_away(path: &Path) -> String {
    let mut old = path.as_os_str().to_owned();
    old.push(".old");
    format!("mv {} {}", quoted_path(path), quoted_path(Path::new(&old)))
}

fn writable(check: &'static str, path: &Path) -> Option<Finding> {
    let errno = access(path, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
    let (shown, owner) = (path.display(), directory::owner_and_mode(path));
    let (found, fix) = match errno {
        Errno::EROFS => (
            format!("{shown} is on a file system that is mounted read-only"),
            format!(
                "mount -o remount,rw \"$(findmnt -no TARGET -T {})\"",
                quoted_path(path)
            ),
        ),
        Errno::EACCES => (
            format!("uid {} may not write to {shown} ({owner})", getuid()),
            AS_ROOT.to_owned(),
        ),
        other => (
            format!("cannot write to {shown}: {}", other.desc()),
            "see the kernel's log: dmesg".to_owned(),
        ),
    };
    Some(Finding::fault(check, found, fix))
}

/// Every user that may write to the directory can replace our socket or link.
fn owner(path: &Path) -> Option<Finding> {
    let found = fs::metadata(path).ok()?;
    let (mode, owner) = (found.mode() & 0o7777, found.uid());
    let shown = path.display();
    if mode & 0o1002 == 0o0002 {
        let found = format!("every user may write to {shown} (mode {mode:04o})");
        let fix = format!("chmod o-w {}", quoted_path(path));
        return Some(Finding::warning("owner", found, fix));
    }
    (owner != 0 && owner != getuid().as_raw()).then(|| {
        let found = format!("{shown} belongs to uid {owner}");
        Finding::warning("owner", found, format!("chown root: {}", quoted_path(path)))
    })
}
