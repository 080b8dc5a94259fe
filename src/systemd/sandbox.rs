//! Directories of the configuration that the unit's sandbox hides or makes read-only.
//!
//! The daemon refuses such a configuration: it would wait for ever for a socket that it cannot see.
//! It looks at the mounts that systemd made for this process, whatever the unit says.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

use crate::config::{Listen, RootDir, Settings};

/// Directories that ProtectHome= and InaccessiblePaths= hide; a drop-in may use PrivateTmp=.
const HIDDEN: [(&str, &str); 5] = [
    ("/home", "ProtectHome="),
    ("/root", "ProtectHome="),
    ("/run/user", "ProtectHome="),
    ("/tmp", "InaccessiblePaths="),
    ("/var/tmp", "InaccessiblePaths="),
];
/// Directories that ProtectSystem=full makes read-only.
const READ_ONLY: [&str; 3] = ["/usr", "/boot", "/etc"];

/// The access that the daemon needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// The directories of these settings that the sandbox of this process keeps from us, in words.
pub(crate) fn kept_from_us(settings: &Settings) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let hides = |directory: &str| is_masked(&mounts, directory);
    complaints(settings, "the unit", hides, is_read_only)
}

/// The directories that the shipped unit would keep from us, in words.
pub(crate) fn kept_by_the_unit(settings: &Settings) -> Vec<String> {
    complaints(settings, "the shipped unit", |_| true, |_| true)
}

fn complaints(
    settings: &Settings,
    unit: &str,
    hides: impl Fn(&str) -> bool,
    locks: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let objection = |path: &Path, access: Access| {
        let hidden = HIDDEN
            .iter()
            .find(|(prefix, _)| path.starts_with(prefix) && hides(prefix));
        if let Some((prefix, directive)) = hidden {
            return Some(format!("{directive} of {unit} hides {prefix}"));
        }
        let is_locked = |prefix: &&&str| path.starts_with(prefix) && locks(path);
        let mut written = READ_ONLY.iter().filter(|_| access == Access::Write);
        let prefix = written.find(is_locked)?;
        Some(format!("ProtectSystem= of {unit} makes {prefix} read-only"))
    };
    directories(settings)
        .into_iter()
        .filter_map(|(key, path, access)| {
            let why = objection(path, access)?;
            Some(format!("{key} = \"{}\": {why}", path.display()))
        })
        .collect()
}

/// Every path that the daemon uses, with the key that names it.
fn directories(settings: &Settings) -> Vec<(String, &Path, Access)> {
    let mut all: Vec<(String, &Path, Access)> = Vec::new();
    let mut add = |key: &str, path, access| all.push((key.to_owned(), path, access));
    add("registry_dir", &settings.registry_dir, Access::Write);
    let kubelet = &settings.kubelet;
    add("kubelet.registry_dir", &kubelet.registry_dir, Access::Write);
    if let RootDir::Path(root) = &kubelet.root_dir {
        add("kubelet.root_dir", root, Access::Read);
    }
    if settings.discovery.enabled {
        add("plugins_dir", &settings.plugins_dir, Access::Read);
    }
    for (id, driver) in &settings.drivers {
        let key = format!("drivers.\"{id}\".csi_socket");
        add(&key, &driver.csi_socket, Access::Read);
    }
    if let Some(Listen::Unix(path)) = &settings.http.listen {
        add("http.listen", path, Access::Write);
    }
    all
}

/// systemd has mounted a directory of its own over `directory`: a private directory, or a directory
/// without permission bits, which no process may enter.
fn is_masked(mounts: &str, directory: &str) -> bool {
    let closed = fs::metadata(directory).is_ok_and(|found| found.mode() & 0o777 == 0);
    closed || has_private_mount(mounts, directory)
}

fn has_private_mount(mounts: &str, directory: &str) -> bool {
    mounts.lines().any(|line| {
        let mut fields = line.split(' ').skip(3);
        let root = fields.next().unwrap_or_default();
        fields.next() == Some(directory) && root.contains("systemd-private-")
    })
}

/// The path, or the part of it that exists, is on a file system that is read-only for us. A directory
/// below a read-only one may still be writable, through ReadWritePaths= or a mount.
fn is_read_only(path: &Path) -> bool {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    existing
        .and_then(|existing| statvfs(existing).ok())
        .is_some_and(|file_system| file_system.flags().contains(FsFlags::ST_RDONLY))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn knows_the_directories_that_systemd_closes_or_makes_private() {
        let mounts = "\
            36 35 98:0 / / rw shared:1 - ext4 /dev/root rw\n\
            41 36 98:0 /tmp/systemd-private-1f-x.service-Ab/tmp /tmp rw shared:9 - ext4 /dev/root rw\n\
            42 36 98:9 / /var/tmp rw shared:9 - ext4 /dev/sdb rw\n";
        assert!(has_private_mount(mounts, "/tmp"));
        assert!(!has_private_mount(mounts, "/var/tmp") && !has_private_mount(mounts, "/"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_str().unwrap();
        assert!(!is_masked("", path));
        fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
        assert!(is_masked("", path));
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    #[test]
    fn names_the_key_the_path_and_the_directive() {
        let settings = Settings {
            registry_dir: "/home/a/reg".into(),
            ..Settings::default()
        };
        let kept = kept_by_the_unit(&settings);
        assert_eq!(
            kept,
            ["registry_dir = \"/home/a/reg\": ProtectHome= of the shipped unit hides /home"]
        );
        assert!(kept_by_the_unit(&Settings::default()).is_empty());
    }
}
