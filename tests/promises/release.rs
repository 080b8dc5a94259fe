//! The directory of a release.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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

/// Whether this clone has the tag of a version: it was released.
pub(crate) fn is_tagged(version: &str) -> bool {
    let tag = format!("v{version}^{{commit}}");
    git(&["rev-parse", "--quiet", "--verify", &tag])
}

/// Whether git succeeds. Without git, or in an unpacked archive, it does not.
fn git(arguments: &[&str]) -> bool {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(root())
        .args(arguments)
        .stdout(Stdio::null());
    command
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn the_files_of_a_version_are_not_edited_after_its_tag() {
    for release in Release::all() {
        let version = name(&release.directory);
        if is_tagged(version) {
            let tag = format!("v{version}");
            let is_as_tagged = git(&["diff", "--quiet", &tag, "--", version]);
            assert!(
                is_as_tagged,
                "tests/promises/{version} is not that of {tag}: it is a promise"
            );
        }
    }
}

#[test]
fn a_later_version_comes_after_an_earlier_one() {
    assert!(numbers("1.10.0") > numbers("1.2.0"));
}

/// The directory of all releases.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/promises")
}
