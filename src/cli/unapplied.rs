//! The configuration files that have changed since the daemon read the configuration.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::config::Loaded;

/// The last change of a file or directory that the configuration is read from.
#[derive(Clone, Debug)]
pub(super) struct Change {
    path: PathBuf,
    /// In seconds since 1970.
    at: f64,
}

/// The last changes of the files that were read, and of the directories that decide which files are read.
/// Looks at each file, and may hang with its file system.
pub(super) fn changes(loaded: &Loaded) -> Vec<Change> {
    let paths = loaded.files.iter().chain(&loaded.directories);
    // A file that has gone meanwhile has changed its directory.
    let changes = paths.filter_map(|path| {
        let at = changed(path).ok()?;
        let path = path.clone();
        Some(Change { path, at })
    });
    changes.collect()
}

/// The changes after this time, in words, with the command that applies them.
///
/// The kernel takes a file's time from a clock that is never ahead of the clock that the daemon takes its
/// time from, and the daemon takes it after it has read the files. So a file that the daemon has read is
/// never later.
pub(super) fn unapplied(changes: &[Change], accepted: f64) -> Option<String> {
    let late = changes.iter().filter(|change| change.at > accepted);
    let mut late: Vec<&Path> = late.map(|change| change.path.as_path()).collect();
    // A new file changes its directory, too.
    let files = late.clone();
    late.retain(|path| files.iter().all(|file| file.parent() != Some(path)));
    let verb = match late.len() {
        0 => return None,
        1 => "has",
        _ => "have",
    };
    let names: Vec<String> = late.iter().map(|path| path.display().to_string()).collect();
    Some(format!(
        "{} {verb} changed since the daemon read the configuration: systemctl reload node-storage-driver-registrar",
        names.join(", ")
    ))
}

/// The time of the last change of the file, or of the link that leads to it. A copy may keep the time at
/// which the content was written (`cp -p`), but not this time.
fn changed(path: &Path) -> io::Result<f64> {
    let (file, link) = (fs::metadata(path)?, fs::symlink_metadata(path)?);
    Ok(ctime(&file).max(ctime(&link)))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a double has the seconds of today to a quarter of a microsecond"
)]
fn ctime(found: &Metadata) -> f64 {
    found.ctime() as f64 + found.ctime_nsec() as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(changes: &[(&str, f64)]) -> Option<String> {
        let changes = changes.iter().map(|(path, at)| Change {
            path: PathBuf::from(path),
            at: *at,
        });
        unapplied(&changes.collect::<Vec<_>>(), 1000.5)
    }

    #[test]
    fn only_later_changes_count() {
        assert_eq!(
            words(&[("/c/config.toml", 1000.5), ("/c/config.d", 9.0)]),
            None
        );
        let since = "changed since the daemon read the configuration: \
                     systemctl reload node-storage-driver-registrar";
        assert_eq!(
            words(&[("/c/config.d/a.toml", 1000.6), ("/c/config.d", 1000.6)]).unwrap(),
            format!("/c/config.d/a.toml has {since}")
        );
        assert_eq!(
            words(&[("/c/config.toml", 1000.6), ("/c/config.d", 9.0)]).unwrap(),
            format!("/c/config.toml has {since}")
        );
        assert_eq!(
            words(&[("/c/config.toml", 1000.6), ("/c/config.d/a.toml", 1001.0)]).unwrap(),
            format!("/c/config.toml, /c/config.d/a.toml have {since}")
        );
    }

    #[test]
    fn a_link_changes_with_its_target_and_with_itself() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::write(path("a"), "").unwrap();
        std::os::unix::fs::symlink("a", path("link")).unwrap();
        let link = ctime(&fs::symlink_metadata(path("link")).unwrap());
        assert_eq!(changed(&path("link")).unwrap().to_bits(), link.to_bits());
        assert!(changed(&path("none")).is_err());
    }
}
