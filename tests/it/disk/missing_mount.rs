//! A file system that is not mounted above registry_dir: the registrar serves all the same, and says so.

use std::fs;
use std::path::Path;

use bed::scene::{NAME, SOON};
use bed::{Mounts, eventually, skipped};
use serde_json::Value;

use crate::setup;

#[test]
fn a_registry_dir_below_a_mount_that_is_missing_is_reported_once_and_noted_until_it_is_mounted() {
    let Some(mut mounts) = Mounts::private() else {
        return skipped("root, to mount");
    };
    let mut scene = setup().set();
    let vdata = scene.node.root().join("vdata");
    let fstab = scene.node.root().join("fstab");
    fs::write(&fstab, format!("/dev/sdz1 {} ext4\n", vdata.display())).unwrap();
    mounts.bind(&fstab, Path::new("/etc/fstab"));
    let driver = scene.node.driver(NAME);
    scene.registrar.start();
    // Drivers elsewhere need the socket, so that it is served.
    scene.phase(NAME, "waiting-for-kubelet");
    let status = || {
        let output = scene.registrar.run_cli(["status", "--json"]);
        serde_json::from_slice::<Value>(&output.stdout).ok()
    };
    let words = format!(
        "{} is not mounted, although line 1 of /etc/fstab",
        vdata.display()
    );
    let fix = format!("until then: mount {}", vdata.display());
    let is_said = |status: Value| {
        let mut notes = status["notes"].as_array()?.iter().filter_map(Value::as_str);
        Some(notes.any(|note| note.contains(&words) && note.ends_with(&fix)))
    };
    eventually("a note says it", SOON, || {
        status().and_then(is_said) == Some(true)
    });
    // Another directory at the same path, and still no mount.
    fs::rename(scene.node.registry_dir(), scene.node.root().join("old")).unwrap();
    let socket = scene.node.reg_socket(NAME);
    eventually("the socket is back", SOON, || socket.exists());
    assert_eq!(scene.registrar.logs().matches(&words).count(), 1);
    mounts.tmpfs(&vdata, 100, 1 << 20);
    eventually("the note goes", SOON, || {
        status().and_then(is_said) == Some(false)
    });
    eventually("the journal says it", SOON, || {
        let mounted = format!("{} is mounted", vdata.display());
        scene.registrar.logs().contains(&mounted)
    });
    drop(driver);
    drop(scene);
    drop(mounts);
}
