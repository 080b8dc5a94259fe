//! Directories that the unit's sandbox hides from us or keeps us from writing to.
//!
//! A daemon that waits for a socket which it can never see would wait for ever, so such a
//! configuration is refused. What counts is what is so: only a mount that systemd made for us
//! hides a directory, whatever the unit says.

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

/// What a directory is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// The directories of these settings that the sandbox of this process keeps from us, in words.
pub(crate) fn kept_from_us(settings: &Settings) -> Vec<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    complaints(settings, |path, usage| {
        let hidden = HIDDEN
            .iter()
            .find(|(prefix, _)| path.starts_with(prefix) && is_masked(&mounts, prefix));
        if let Some((prefix, directive)) = hidden {
            return Some(format!("{directive} of the unit hides {prefix}"));
        }
        let read_only = READ_ONLY
            .iter()
            .find(|prefix| path.starts_with(prefix) && is_read_only(path));
        let prefix = read_only.filter(|_| usage == Use::Write)?;
        Some(format!(
            "ProtectSystem= of the unit makes {prefix} read-only"
        ))
    })
}

/// The directories that the shipped unit would keep from us, in words.
pub(crate) fn kept_by_the_unit(settings: &Settings) -> Vec<String> {
    complaints(settings, |path, usage| {
        if let Some((prefix, directive)) =
            HIDDEN.iter().find(|(prefix, _)| path.starts_with(prefix))
        {
            return Some(format!(
                "under systemd, {directive} of the shipped unit hides {prefix}"
            ));
        }
        let prefix = READ_ONLY
            .iter()
            .find(|prefix| usage == Use::Write && path.starts_with(prefix))?;
        Some(format!(
            "under systemd, ProtectSystem= of the shipped unit makes {prefix} read-only"
        ))
    })
}

fn complaints(
    settings: &Settings,
    objection: impl Fn(&Path, Use) -> Option<String>,
) -> Vec<String> {
    directories(settings)
        .into_iter()
        .filter_map(|(key, path, usage)| {
            let why = objection(path, usage)?;
            Some(format!("{key} = \"{}\": {why}", path.display()))
        })
        .collect()
}

/// Every path that is used, under the key that names it.
fn directories(settings: &Settings) -> Vec<(String, &Path, Use)> {
    let mut all = vec![
        (
            "registry_dir".to_owned(),
            settings.registry_dir.as_path(),
            Use::Write,
        ),
        (
            "kubelet.registry_dir".to_owned(),
            &settings.kubelet.registry_dir,
            Use::Write,
        ),
    ];
    if let RootDir::Path(root) = &settings.kubelet.root_dir {
        all.push(("kubelet.root_dir".to_owned(), root, Use::Read));
    }
    if settings.discovery.enabled {
        all.push(("plugins_dir".to_owned(), &settings.plugins_dir, Use::Read));
    }
    for (id, driver) in &settings.drivers {
        all.push((
            format!("drivers.\"{id}\".csi_socket"),
            &driver.csi_socket,
            Use::Read,
        ));
    }
    if let Some(Listen::Unix(path)) = &settings.http.listen {
        all.push(("http.listen".to_owned(), path, Use::Write));
    }
    all
}

/// systemd has mounted something of its own over `directory`: a private directory, or one that
/// nobody may enter, which has no permission bits at all.
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

/// Whether what is there of the path, or would be made there, is on a file system that is
/// read-only to us. A part of a directory may be writable by the unit, or by a mount.
fn is_read_only(path: &Path) -> bool {
    let there = path.ancestors().find(|ancestor| ancestor.exists());
    there
        .and_then(|there| statvfs(there).ok())
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
            [
                "registry_dir = \"/home/a/reg\": under systemd, ProtectHome= of the shipped unit hides /home"
            ]
        );
        assert!(kept_by_the_unit(&Settings::default()).is_empty());
    }
}
