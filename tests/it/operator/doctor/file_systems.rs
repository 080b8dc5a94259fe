//! Nodes on which a file system is full.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use bed::scene::NAME;
use bed::{Mounts, skipped};

use super::{doctor, findings, finds, first_is, fixed_by};
use crate::setup;

/// A private mount namespace for this test. None without root; `tests/run` has root.
fn mounts() -> Option<Mounts> {
    let mounts = Mounts::private();
    if mounts.is_none() {
        skipped("root, to mount");
    }
    mounts
}

fn use_up_inodes(directory: &Path) {
    let mut names = (0..).map(|number| directory.join(format!("file-{number}")));
    while File::create(names.next().unwrap()).is_ok() {}
}

fn use_up_bytes(directory: &Path) {
    let mut file = File::create(directory.join("filler")).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
}

#[test]
fn a_registry_dir_without_inodes_or_bytes_is_named_with_its_mount_and_device() {
    let Some(mut mounts) = mounts() else { return };
    let scene = setup().set();
    let _driver = scene.node.driver(NAME);
    let registry = scene.node.registry_dir();
    fs::create_dir_all(&registry).unwrap();
    for (fill, words, fix) in [
        (
            use_up_inodes as fn(&Path),
            "0 of 100 inodes left, although",
            "du -x --inodes",
        ),
        (use_up_bytes, "0 bytes of 1 MiB left", "du -xh"),
    ] {
        mounts.tmpfs(&registry, 100, 1 << 20);
        fill(&registry);
        let output = doctor(&scene);
        first_is(&output, "file system", words);
        let at = registry.display();
        first_is(
            &output,
            "file system",
            &format!("registry_dir ({at}) is full"),
        );
        first_is(
            &output,
            "file system",
            &format!("(tmpfs tmpfs, mounted at {at})"),
        );
        fixed_by(&output, fix);
        mounts.unmount(&registry);
    }
    drop(mounts);
}

#[test]
fn a_full_kubelet_directory_is_named_and_is_a_warning_while_every_driver_is_ready() {
    let Some(mut mounts) = mounts() else { return };
    let mut scene = setup().set();
    let root = scene.node.kubelet_root();
    mounts.tmpfs(&root, 100, 1 << 20);
    scene.node.make_kubelet_registry_dir();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.registrar.start();
    scene.phase(NAME, "registered");
    use_up_inodes(&root);
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let first = &findings(&output)[0];
    assert_eq!(first["check"], "file system", "{first}");
    let found = first["found"].as_str().unwrap();
    assert!(found.contains("kubelet.registry_dir ("), "{found}");
    scene.registrar.stop();
    // The link is gone with the registrar.
    use_up_inodes(&root);
    finds(&scene, "file system", "0 of 100 inodes left");
    drop(scene);
    drop(mounts);
}
