//! Directories of the configuration that the unit's sandbox hides or makes read-only.
//!
//! The daemon refuses such a configuration: it would wait for ever for a socket that it cannot see.
//! It looks at the mounts that systemd made for this process, whatever the unit says.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::statvfs::{FsFlags, statvfs};

use super::systemctl::{SYSTEMCTL, Systemctl, SystemctlError, in_time};
use crate::config::{Listen, RootDir, Settings};

/// The unit that the packages install.
const UNIT: &str = "node-storage-driver-registrar.service";
/// The directives that keep directories from the daemon, or give them back.
const DIRECTIVES: &str = "--property=LoadState,ProtectHome,ProtectSystem,PrivateTmp,InaccessiblePaths,ReadWritePaths,BindPaths";

/// What to do about a directory that the sandbox keeps from the daemon.
const FIX: &str = "use another directory, or change the unit with a drop-in";

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

/// The directories of the configuration that the unit's sandbox keeps from the daemon, in words. The
/// daemon refuses such a configuration, and `check` with the same words.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) struct Kept(Vec<String>);

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.0.as_slice() {
            return write!(f, "{only}; {FIX}");
        }
        write!(f, "the unit keeps {} paths from the daemon:", self.0.len())?;
        let mut kept = self.0.iter();
        kept.try_for_each(|kept| write!(f, "\n  {kept}"))?;
        write!(f, "\n{FIX}")
    }
}

impl Kept {
    fn unless_empty(kept: Vec<String>) -> Result<(), Kept> {
        match kept.is_empty() {
            true => Ok(()),
            false => Err(Kept(kept)),
        }
    }
}

/// Whether the sandbox of this process leaves us every directory of these settings.
pub(crate) fn of_this_process(settings: &Settings) -> Result<(), Kept> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let hides = |directory: &str| is_masked(&mounts, directory);
    Kept::unless_empty(complaints(settings, "the unit", hides, is_read_only))
}

/// Whether the unit of this host, with its drop-ins, would leave the daemon every directory of these
/// settings. None if systemd does not run or does not know the unit.
pub(crate) async fn of_the_unit(settings: &Settings) -> Option<Result<(), Kept>> {
    let asked = in_time(Directives::ask(SYSTEMCTL)).await;
    let directives = asked.unwrap_or_else(|error| {
        tracing::debug!(%error, "cannot ask systemd for the sandbox of the unit");
        None
    })?;
    let hides = |directory: &str| directives.hide(directory);
    let locks = |path: &Path| directives.lock(path) || is_read_only(path);
    Some(Kept::unless_empty(complaints(
        settings, "the unit", hides, locks,
    )))
}

/// The directives of the unit that [`of_this_process`] would notice.
struct Directives(BTreeMap<String, String>);

impl Directives {
    /// As systemd has loaded the unit with its drop-ins; none if it has not. An older systemd leaves out the
    /// directives that it does not know.
    async fn ask(systemctl: Systemctl<'_>) -> Result<Option<Directives>, SystemctlError> {
        let answer = systemctl.ask(&["show", DIRECTIVES, "--", UNIT]).await?;
        let pairs = answer.lines().filter_map(|line| line.split_once('='));
        let values = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let directives = Directives(values.collect());
        Ok((directives.value("LoadState") == "loaded").then_some(directives))
    }

    fn value(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }

    /// The paths of a list such as `-/tmp -/var/tmp`, or `/a:/b:rbind` of BindPaths=.
    fn paths(&self, name: &str) -> impl Iterator<Item = &Path> {
        self.value(name).split_whitespace().map(|entry| {
            let entry = entry.trim_start_matches(['-', '+']);
            Path::new(entry.split(':').nth(1).unwrap_or(entry))
        })
    }

    fn hide(&self, directory: &str) -> bool {
        let by_switch = match directory {
            "/tmp" | "/var/tmp" => self.value("PrivateTmp") == "yes",
            _ => self.value("ProtectHome") == "yes",
        };
        let mut inaccessible = self.paths("InaccessiblePaths");
        by_switch || inaccessible.any(|path| path == Path::new(directory))
    }

    fn lock(&self, path: &Path) -> bool {
        let is_covered = match self.value("ProtectSystem") {
            "full" | "strict" => true,
            "yes" => !path.starts_with("/etc"),
            _ => false,
        };
        let mut writable = self.paths("ReadWritePaths").chain(self.paths("BindPaths"));
        is_covered && !writable.any(|above| path.starts_with(above))
    }
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
    add(
        "kubelet.plugins_registry",
        &kubelet.plugins_registry,
        Access::Write,
    );
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
/// below a read-only directory may still be writable, through ReadWritePaths= or a mount.
fn is_read_only(path: &Path) -> bool {
    let existing = path.ancestors().find(|ancestor| ancestor.exists());
    existing
        .and_then(|existing| statvfs(existing).ok())
        .is_some_and(|file_system| file_system.flags().contains(FsFlags::ST_RDONLY))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::systemctl::tests::script;
    use super::*;

    /// What a unit with these directives would keep from the daemon; none if it is not loaded.
    async fn kept(settings: &Settings, shown: &str) -> Option<Vec<String>> {
        let (_dir, path) = script(&format!("printf '%s\\n' {shown}"));
        let directives = Directives::ask(Systemctl(&path)).await.unwrap()?;
        let hides = |directory: &str| directives.hide(directory);
        let locks = |path: &Path| directives.lock(path);
        Some(complaints(settings, "the unit", hides, locks))
    }

    #[tokio::test]
    async fn a_drop_in_of_the_unit_counts() {
        const SHIPPED: &str = "LoadState=loaded ProtectHome=yes ProtectSystem=full 'InaccessiblePaths=-/tmp -/var/tmp'";
        let hides_home = "ProtectHome= of the unit hides /home";
        let hides_tmp = "InaccessiblePaths= of the unit hides /tmp";
        let locks_etc = "ProtectSystem= of the unit makes /etc read-only";
        let loosened = SHIPPED.replace("ProtectHome=yes", "ProtectHome=no");
        for (directory, unit, why) in [
            ("/vdata/reg", SHIPPED, None),
            ("/home/reg", SHIPPED, Some(hides_home)),
            ("/home/reg", &loosened, None),
            ("/tmp/reg", SHIPPED, Some(hides_tmp)),
            ("/tmp/reg", "LoadState=loaded InaccessiblePaths=", None),
            (
                "/tmp/reg",
                "LoadState=loaded PrivateTmp=yes",
                Some(hides_tmp),
            ),
            ("/etc/reg", SHIPPED, Some(locks_etc)),
            ("/etc/reg", "LoadState=loaded ProtectSystem=yes", None),
            (
                "/etc/reg",
                "LoadState=loaded ProtectSystem=full 'ReadWritePaths=/srv -/etc/reg'",
                None,
            ),
            (
                "/etc/reg/a",
                "LoadState=loaded ProtectSystem=full BindPaths=/srv/reg:/etc/reg:rbind",
                None,
            ),
        ] {
            let settings = Settings {
                registry_dir: directory.into(),
                ..Settings::default()
            };
            let why = why.map(|why| format!("registry_dir = \"{directory}\": {why}"));
            let expected: Vec<String> = why.into_iter().collect();
            assert_eq!(
                kept(&settings, unit).await,
                Some(expected),
                "{directory} {unit}"
            );
        }
        let unknown = kept(&Settings::default(), "LoadState=not-found").await;
        assert_eq!(unknown, None);
    }

    #[test]
    fn a_refusal_names_every_path_and_what_to_do() {
        let only = Kept(vec!["a".to_owned()]);
        assert_eq!(only.to_string(), format!("a; {FIX}"));
        let both = Kept(vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(
            both.to_string(),
            format!("the unit keeps 2 paths from the daemon:\n  a\n  b\n{FIX}")
        );
    }

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
