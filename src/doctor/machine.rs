//! What the machine itself may lack: labels, inotify, the right time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::{Finding, Inputs};
use crate::config::Settings;

/// The kernel's defaults for a machine that has little memory; kubelets and log shippers use many.
const FEWEST_INSTANCES: u64 = 128;
const FEWEST_WATCHES: u64 = 8192;
/// No clock that is right is before this.
const EARLIEST: &str = "2025-01-01T00:00:00Z";
/// Types that a kubelet and its containers are not allowed to use.
const USELESS_LABELS: [&str; 4] = ["default_t", "unlabeled_t", "user_home_t", "mnt_t"];

pub(super) fn check(patient: &Inputs, drivers: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Ok(status) = &patient.daemon {
        for note in &status.notes {
            let mend = "see journalctl -u node-storage-driver-registrar";
            findings.push(Finding::warning("daemon", note.clone(), mend));
        }
    }
    if drivers.is_empty() {
        findings.push(no_drivers(&patient.settings));
    }
    let enforcing = fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|on| on.trim() == "1");
    if enforcing {
        let settings = &patient.settings;
        for directory in [&settings.plugins_dir, &settings.registry_dir] {
            findings.extend(label(directory));
        }
    }
    findings.extend(inotify(&patient.proc));
    findings.extend(clock(Timestamp::now()));
    findings
}

fn no_drivers(settings: &Settings) -> Finding {
    if settings.discovery.enabled {
        let sockets = settings.plugins_dir.join("*/csi.sock");
        let saw = format!("there are no drivers: no {}", sockets.display());
        let mend = "start a driver with its socket there, or set plugins_dir to where drivers are";
        return Finding::warning("csi.sock", saw, mend);
    }
    let mend = "add a [drivers.\"ID\"] table, or set discovery.enabled = true";
    Finding::warning("config", "there are no drivers", mend)
}

fn label(directory: &Path) -> Option<Finding> {
    let mut buffer = [0; 256];
    let length = rustix::fs::getxattr(directory, "security.selinux", &mut buffer).ok()?;
    let context = String::from_utf8_lossy(&buffer[..length]);
    let kind = context.trim_end_matches('\0').split(':').nth(2)?;
    USELESS_LABELS.contains(&kind).then(|| {
        let shown = directory.display();
        Finding::warning(
            "SELinux",
            format!(
                "SELinux is enforcing, and {shown} has the type {kind}, which a kubelet may not use"
            ),
            format!(
                "semanage fcontext -a -t container_file_t '{shown}(/.*)?' && restorecon -R {shown}"
            ),
        )
    })
}

fn inotify(proc: &Path) -> Vec<Finding> {
    let limits = [
        ("max_user_instances", FEWEST_INSTANCES),
        ("max_user_watches", FEWEST_WATCHES),
    ];
    let low = limits.into_iter().filter_map(|(key, fewest)| {
        let text = fs::read_to_string(proc.join("sys/fs/inotify").join(key)).ok()?;
        let limit: u64 = text.trim().parse().ok()?;
        (limit < fewest).then(|| {
            Finding::warning(
                "inotify",
                format!("fs.inotify.{key} is {limit}; kubelets and log shippers use that up"),
                format!("sysctl -w fs.inotify.{key}={}", fewest * 4),
            )
        })
    });
    low.collect()
}

fn clock(now: Timestamp) -> Option<Finding> {
    let earliest: Timestamp = EARLIEST.parse().ok()?;
    (now < earliest).then(|| {
        let saw = format!("the clock says {now}: the kubelet's certificates are not valid then");
        Finding::warning("clock", saw, "timedatectl set-ntp true")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_never_set_is_a_warning() {
        assert!(clock("1970-01-01T00:10:00Z".parse().unwrap()).is_some());
        assert!(clock("2026-01-01T00:00:00Z".parse().unwrap()).is_none());
    }

    #[test]
    fn low_limits_are_named_with_the_command_that_raises_them() {
        let dir = tempfile::tempdir().unwrap();
        let limits = dir.path().join("sys/fs/inotify");
        fs::create_dir_all(&limits).unwrap();
        fs::write(limits.join("max_user_instances"), "8\n").unwrap();
        fs::write(limits.join("max_user_watches"), "100000\n").unwrap();
        let found = inotify(dir.path());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].mend, "sysctl -w fs.inotify.max_user_instances=512");
    }
}
