//! The directory of a release.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version that the tree has.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The directory of each release with the major version of the tree.
pub(crate) struct Release {
    pub(crate) directory: PathBuf,
}

impl Release {
    /// The releases, in the order of their versions.
    pub(crate) fn all() -> Vec<Release> {
        let major = VERSION.split_once('.').unwrap().0;
        let entries = fs::read_dir(root()).unwrap();
        let mut directories: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        directories.retain(|path| {
            path.is_dir()
                && name(path)
                    .split_once('.')
                    .is_some_and(|(of, _)| of == major)
        });
        directories.sort_by_key(|path| numbers(name(path)));
        assert!(!directories.is_empty());
        let release = |directory| Release { directory };
        directories.into_iter().map(release).collect()
    }

    /// The releases whose files a test reads: a release that changed none of them has its list alone.
    pub(crate) fn recorded() -> Vec<Release> {
        let mut releases = Release::all();
        releases.retain(|release| release.directory.join("state.json").exists());
        assert!(!releases.is_empty());
        releases
    }

    pub(crate) fn read(&self, file: &str) -> Vec<u8> {
        let path = self.directory.join(file);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn text(&self, file: &str) -> String {
        String::from_utf8(self.read(file)).unwrap()
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn numbers(version: &str) -> Vec<u32> {
    let numbers = version.split('.').map(|number| number.parse().unwrap());
    numbers.collect()
}

/// The lines of the released versions.
fn released() -> Vec<String> {
    let text = fs::read_to_string(root().join("released")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// Whether the version is released, so that its directory is a promise.
pub(crate) fn is_released(version: &str) -> bool {
    let lines = released();
    lines
        .iter()
        .any(|line| line.split_once(' ').unwrap().0 == version)
}

/// The line of a version, from the files that its directory has now.
fn line(releases: &Path, version: &str) -> String {
    let mut command = Command::new(root().join("checksum"));
    let output = command.env("RELEASES", releases).arg(version).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout)
        .unwrap()
        .trim_end()
        .to_owned()
}

#[test]
fn the_files_of_a_released_version_are_those_that_were_released() {
    for recorded in released() {
        let version = recorded.split_once(' ').unwrap().0;
        assert_eq!(
            line(&root(), version),
            recorded,
            "tests/promises/{version} is a promise: restore it, and let a later version add what is new"
        );
    }
}

#[test]
fn every_version_before_that_of_the_tree_is_released() {
    for release in Release::all() {
        let version = name(&release.directory);
        assert!(
            version == VERSION || is_released(version),
            "tests/promises/released has no line for {version}: tests/promises/checksum {version} prints it"
        );
    }
}

#[test]
fn a_file_that_is_edited_or_added_or_renamed_changes_the_line_of_its_version() {
    let releases = tempfile::tempdir().unwrap();
    let directory = releases.path().join("1.0.0");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("list"), "key a").unwrap();
    let mut lines = BTreeSet::from([line(releases.path(), "1.0.0")]);
    fs::write(directory.join("list"), "key b").unwrap();
    lines.insert(line(releases.path(), "1.0.0"));
    fs::write(directory.join("state.json"), "").unwrap();
    lines.insert(line(releases.path(), "1.0.0"));
    fs::rename(directory.join("state.json"), directory.join("state")).unwrap();
    lines.insert(line(releases.path(), "1.0.0"));
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[test]
fn a_later_version_comes_after_an_earlier_one() {
    assert!(numbers("1.10.0") > numbers("1.2.0"));
}

/// The directory of all releases.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promises")
}
