//! The machine: SELinux labels, inotify limits and the clock.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use jiff::Timestamp;

use super::{Finding, Inputs, directories, idle_directories};

/// The kernel's defaults on a machine with little memory. Kubelets and log shippers use many.
const INOTIFY_LIMITS: [(&str, u64); 2] = [("max_user_instances", 128), ("max_user_watches", 8192)];
/// A correct clock shows a later time.
const EARLIEST: &str = "2025-01-01T00:00:00Z";
/// Types that a confined kubelet and its containers may not use.
const USELESS_LABELS: [&str; 4] = ["default_t", "unlabeled_t", "user_home_t", "mnt_t"];

/// `before` has the findings of the other checks.
pub(super) fn check(
    inputs: &Inputs,
    drivers: &BTreeSet<String>,
    before: &[Finding],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    let settings = &inputs.settings;
    // A directory without a csi.sock, or none, says why discovery finds no driver.
    let whys = [idle_directories::CHECK, directories::PLUGINS_DIR];
    let is_explained = |finding: &Finding| whys.contains(&finding.check);
    if drivers.is_empty() && !before.iter().any(is_explained) {
        findings.push(no_drivers(inputs));
    }
    let enforcing = fs::read_to_string("/sys/fs/selinux/enforce").is_ok_and(|on| on.trim() == "1");
    if enforcing {
        let directories = [&settings.plugins_dir, &settings.registry_dir];
        findings.extend(directories.into_iter().filter_map(|path| label(path)));
    }
    findings.extend(inotify(&inputs.proc));
    findings.extend(clock(Timestamp::now()));
    findings
}

fn no_drivers(Inputs { settings, .. }: &Inputs) -> Finding {
    if settings.discovery.enabled {
        let sockets = settings.plugins_dir.join("*/csi.sock");
        let found = format!("no drivers: {} does not exist", sockets.display());
        let fix =
            "start a driver with its socket there, or set plugins_dir to the drivers' directory";
        return Finding::warning("csi.sock", found, fix);
    }
    let fix = "add a [drivers.\"ID\"] table, or set discovery.enabled = true";
    Finding::warning("config", "no drivers: the configuration names none", fix)
}

fn label(directory: &Path) -> Option<Finding> {
    let mut buffer = [0; 256];
    let length = rustix::fs::getxattr(directory, "security.selinux", &mut buffer).ok()?;
    let context = String::from_utf8_lossy(&buffer[..length]);
    let kind = context.trim_end_matches('\0').split(':').nth(2)?;
    USELESS_LABELS.contains(&kind).then(|| {
        let shown = directory.display();
        let found = format!(
            "SELinux is enforcing, and a confined kubelet may not use {shown} (type {kind})"
        );
        let fix = format!(
            "if `ps -eZ` shows the kubelet as kubelet_t: semanage fcontext -a -t container_file_t '{shown}(/.*)?' && \
             restorecon -R {shown}; docs/security.md says what else it needs"
        );
        Finding::warning("SELinux", found, fix)
    })
}

fn inotify(proc: &Path) -> Vec<Finding> {
    let low = INOTIFY_LIMITS.into_iter().filter_map(|(key, fewest)| {
        let text = fs::read_to_string(proc.join("sys/fs/inotify").join(key)).ok()?;
        let limit: u64 = text.trim().parse().ok()?;
        (limit < fewest).then(|| {
            let found = format!("fs.inotify.{key} is {limit}; kubelets and log shippers need more");
            let fix = format!("sysctl -w fs.inotify.{key}={}", fewest * 4);
            Finding::warning("inotify", found, fix)
        })
    });
    low.collect()
}

fn clock(now: Timestamp) -> Option<Finding> {
    let earliest: Timestamp = EARLIEST.parse().ok()?;
    (now < earliest).then(|| {
        let found = format!("the clock shows {now}; the kubelet's certificates are not valid then");
        Finding::warning("clock", found, "timedatectl set-ntp true")
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
        assert_eq!(found[0].fix, "sysctl -w fs.inotify.max_user_instances=512");
    }
}
