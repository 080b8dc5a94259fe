//! The directories: there, ours to write, and nobody else's.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::unistd::{AccessFlags, access, getuid};

use super::csi_socket::exposed;
use super::kubelets::KubeletFindings;
use super::{AS_ROOT, Finding, Inputs};
use crate::disk::directory::{self, is_missing};

pub(super) fn check(patient: &Inputs, kubelets: &KubeletFindings) -> Vec<Finding> {
    let settings = &patient.settings;
    let mut findings = Vec::new();
    findings.extend(registry(&settings.registry_dir));
    findings.extend(owner(&settings.registry_dir));
    if settings.discovery.enabled {
        findings.extend(exposed(
            &settings.plugins_dir.join("*/csi.sock"),
            &patient.reach,
        ));
    }
    let kubelet_dir = &settings.kubelet.registry_dir;
    match fs::metadata(kubelet_dir) {
        Ok(metadata) if metadata.is_dir() => {
            findings.extend(writable("kubelet directory", kubelet_dir));
            findings.extend(owner(kubelet_dir));
        }
        Ok(_) => findings.push(Finding::fault(
            "kubelet directory",
            format!("{} is no directory", kubelet_dir.display()),
            format!(
                "move it away and restart the kubelet: mv {0} {0}.old",
                kubelet_dir.display()
            ),
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            findings.push(kubelets.why_no_directory(kubelet_dir));
        }
        Err(error) => findings.push(Finding::fault(
            "kubelet directory",
            format!("cannot look at {}: {error}", kubelet_dir.display()),
            AS_ROOT,
        )),
    }
    findings
}

/// Ours: it is made when it is missing, so that only what keeps it from being made is a fault.
fn registry(path: &Path) -> Option<Finding> {
    let mut there = path;
    loop {
        match fs::metadata(there) {
            Ok(metadata) if metadata.is_dir() => return writable("registry_dir", there),
            Ok(_) => {
                let saw = format!("{} is no directory", there.display());
                let mend = format!("move it away: mv {0} {0}.old", there.display());
                return Some(Finding::fault("registry_dir", saw, mend));
            }
            Err(error) if is_missing(&error) => there = there.parent()?,
            Err(error) => {
                let saw = format!("cannot look at {}: {error}", there.display());
                return Some(Finding::fault("registry_dir", saw, AS_ROOT));
            }
        }
    }
}

fn writable(check: &'static str, path: &Path) -> Option<Finding> {
    let errno = access(path, AccessFlags::W_OK | AccessFlags::X_OK).err()?;
    let shown = path.display();
    Some(match errno {
        Errno::EROFS => Finding::fault(
            check,
            format!("{shown} is on a file system that is mounted read-only"),
            format!("mount -o remount,rw \"$(findmnt -no TARGET -T {shown})\""),
        ),
        Errno::EACCES => Finding::fault(
            check,
            format!(
                "{shown} ({}) may not be written by uid {}",
                directory::owner_and_mode(path),
                getuid()
            ),
            AS_ROOT,
        ),
        other => Finding::fault(
            check,
            format!("cannot write to {shown}: {}", other.desc()),
            "see the kernel's log: dmesg",
        ),
    })
}

/// Whoever may write there may put a socket of theirs in our place.
fn owner(path: &Path) -> Option<Finding> {
    let found = fs::metadata(path).ok()?;
    let strangers = found.mode() & 0o002 != 0 && found.mode() & 0o1000 == 0;
    let foreign = found.uid() != 0 && found.uid() != getuid().as_raw();
    let shown = path.display();
    if strangers {
        let saw = format!(
            "everybody may write to {shown} (mode {:04o})",
            found.mode() & 0o7777
        );
        return Some(Finding::warning("owner", saw, format!("chmod o-w {shown}")));
    }
    foreign.then(|| {
        let saw = format!("{shown} belongs to uid {}", found.uid());
        Finding::warning("owner", saw, format!("chown root: {shown}"))
    })
}
