//! Nodes on which a file system is not mounted.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bed::scene::{NAME, OTHER};
use bed::{Mounts, Scene, skipped};

use super::{doctor, findings, first_is};
use crate::setup;

/// A private mount namespace for this test. None without root; `tests/run` has root.
fn mounts() -> Option<Mounts> {
    let mounts = Mounts::private();
    if mounts.is_none() {
        skipped("root, to mount");
    }
    mounts
}

/// The first finding is the mount, with these words and this fix, and no driver has a finding of its own.
#[track_caller]
fn finds_mount(scene: &Scene, words: &str, fix: &str) {
    let output = doctor(scene);
    let vdata = scene.node.root().join("vdata");
    let vdata = vdata.display();
    first_is(
        &output,
        "mount",
        &format!("{vdata} is not mounted, although {words}"),
    );
    let findings = findings(&output);
    assert_eq!(findings[0]["fix"], fix, "{findings:#?}");
    let found = findings[0]["found"].as_str().unwrap();
    let below = format!("; below it: registry_dir, csi.sock of {NAME}, {OTHER}");
    assert!(found.ends_with(&below), "{found}");
    let about_drivers = findings
        .iter()
        .filter(|finding| !finding["driver"].is_null());
    assert_eq!(about_drivers.count(), 0, "{findings:#?}");
}

#[test]
fn a_file_system_of_fstab_that_is_not_mounted_is_one_finding_with_the_line() {
    let Some(mut mounts) = mounts() else { return };
    let scene = setup().drivers(&[NAME, OTHER]).set();
    let vdata = scene.node.root().join("vdata");
    let line = format!("/dev/sdz1 {} ext4 noauto 0 2", vdata.display());
    let fstab = scene.node.root().join("fstab");
    fs::write(&fstab, format!("# comment\n{line}\n")).unwrap();
    mounts.bind(&fstab, Path::new("/etc/fstab"));
    let words =
        format!("line 2 of /etc/fstab has it: {line} (noauto: systemd does not mount it at boot)");
    finds_mount(&scene, &words, &format!("mount {}", vdata.display()));
    mounts.tmpfs(&vdata, 100, 1 << 20);
    // The new file system is empty.
    first_is(&doctor(&scene), "plugins_dir", "does not exist");
    drop(mounts);
}

#[test]
fn a_mount_unit_that_is_not_started_is_one_finding_with_the_unit() {
    let Some(mut mounts) = mounts() else { return };
    let scene = setup().drivers(&[NAME, OTHER]).set();
    let vdata = scene.node.root().join("vdata");
    let bytes = vdata.as_os_str().as_bytes()[1..].iter();
    let name: String = bytes
        .map(|byte| match byte {
            b'/' => "-".to_owned(),
            b'-' => "\\x2d".to_owned(),
            byte => char::from(*byte).to_string(),
        })
        .collect();
    let units = scene.node.root().join("units");
    fs::create_dir(&units).unwrap();
    fs::write(units.join(format!("{name}.mount")), "[Mount]\n").unwrap();
    let directory = Path::new("/etc/systemd/system");
    if !directory.is_dir() {
        return skipped("a directory /etc/systemd/system");
    }
    mounts.bind(&units, directory);
    let words = format!("/etc/systemd/system/{name}.mount names it");
    finds_mount(&scene, &words, &format!("systemctl start '{name}.mount'"));
    drop(mounts);
}

#[test]
fn a_file_system_that_nothing_needs_is_a_warning() {
    let Some(mut mounts) = mounts() else { return };
    let mut scene = setup().set();
    let fstab = scene.node.root().join("fstab");
    let vdata = scene.node.root().join("vdata");
    fs::write(&fstab, format!("/dev/sdz1 {} ext4\n", vdata.display())).unwrap();
    mounts.bind(&fstab, Path::new("/etc/fstab"));
    scene.registrar.start();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    // The daemon has a note about the same.
    let findings = findings(&output);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0]["check"], "mount", "{findings:#?}");
    assert_eq!(findings[0]["level"], "warning", "{findings:#?}");
    drop(mounts);
}
