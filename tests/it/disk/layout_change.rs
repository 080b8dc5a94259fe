//! Two directories that become one, or one that becomes two, while the registrar runs: the registrar puts no
//! link over its own socket, and a reload decides anew.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use bed::scene::{NAME, OTHER, SOON};
use bed::{Behaviour, Mounts, Scene, eventually, identity, wire};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::setup;

const RELOAD: &str = "now; to use them so: node-storage-driver-registrar reload";

/// The link in the kubelet's directory leads to the registrar's hidden socket beside it.
#[track_caller]
fn wait_one_directory(scene: &Scene) {
    let link = scene.node.link(NAME);
    eventually("a link to the hidden socket beside it", SOON, || {
        let target = fs::read_link(&link).map_err(|error| error.to_string())?;
        if target != Path::new(&format!(".{NAME}-reg.sock")) {
            return Err(format!("it leads to {}", target.display()));
        }
        wire::get_info(&link)
            .map(drop)
            .map_err(|status| status.to_string())
    });
}

#[track_caller]
fn wait_two_directories(scene: &Scene) {
    let link = scene.node.link(NAME);
    eventually("a link to the socket in our own directory", SOON, || {
        fs::read_link(&link).is_ok_and(|target| target == scene.node.reg_socket(NAME))
    });
    scene.wait_published(NAME);
}

/// A conflict until the reload. Link and socket have one path then, and the file at it is neither replaced by a
/// link nor by a socket.
#[track_caller]
fn reload_decides(scene: &Scene) {
    let found = identity(&scene.node.link(NAME));
    scene.reason(NAME, "conflict", RELOAD);
    assert!(found.is_some() && found == identity(&scene.node.link(NAME)));
    scene.registrar.succeed(&["reload"]);
}

#[test]
fn a_link_that_makes_one_directory_of_two_waits_for_a_reload() {
    let (scene, _driver) = setup().published();
    let registry = scene.node.registry_dir();
    let away = registry.with_file_name("away");
    symlink(scene.node.plugins_registry(), &away).unwrap();
    // At once: the registrar would create a directory that is missing for a moment.
    let exchange = RenameFlags::RENAME_EXCHANGE;
    renameat2(AT_FDCWD, &away, AT_FDCWD, &registry, exchange).unwrap();
    reload_decides(&scene);
    wait_one_directory(&scene);
    // Two directories again: a relative link would lead nowhere.
    fs::remove_file(&registry).unwrap();
    fs::create_dir(&registry).unwrap();
    scene.registrar.succeed(&["reload"]);
    wait_two_directories(&scene);
    // The socket of before was bound in the kubelet's directory.
    let left = fs::read_dir(scene.node.plugins_registry()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, [scene.node.link(NAME)]);
}

/// The driver leaves its name while its socket is out of the way.
#[test]
fn a_socket_goes_where_it_was_bound_also_when_its_directory_leads_elsewhere() {
    let mut scene = setup().set();
    let registry = scene.node.registry_dir();
    let real = registry.with_file_name("real");
    fs::create_dir_all(&real).unwrap();
    symlink(&real, &registry).unwrap();
    scene.registrar.start();
    let mut driver = scene.node.driver(NAME);
    scene.wait_published(NAME);
    let away = registry.with_file_name("away");
    symlink(scene.node.plugins_registry(), &away).unwrap();
    let exchange = RenameFlags::RENAME_EXCHANGE;
    renameat2(AT_FDCWD, &away, AT_FDCWD, &registry, exchange).unwrap();
    scene.reason(NAME, "conflict", RELOAD);
    driver.kill();
    driver.restart(Behaviour::named(OTHER));
    let has_left = |driver: &bed::DriverStatus| driver.name.as_deref() == Some(OTHER);
    scene
        .registrar
        .wait_driver("another name", NAME, SOON, has_left);
    scene.registrar.succeed(&["reload"]);
    eventually("the socket is removed", SOON, || {
        fs::read_dir(&real).unwrap().next().is_none()
    });
}

/// Whichever of the two is mounted over the other. When the mount ends without a reload, nothing has happened.
#[test]
fn a_mount_that_makes_one_directory_of_two_waits_for_a_reload() {
    for (over_the_kubelets, is_reloaded) in [(true, true), (false, true), (true, false)] {
        std::thread::scope(|scope| {
            scope
                .spawn(|| mounted_over(over_the_kubelets, is_reloaded))
                .join()
                .unwrap();
        });
    }
}

fn mounted_over(the_kubelets: bool, is_reloaded: bool) {
    let Some(mut mounts) = Mounts::private() else {
        bed::skipped("root, to mount one directory over another");
        return;
    };
    let (scene, _driver) = setup().published();
    let (ours, theirs) = (scene.node.registry_dir(), scene.node.plugins_registry());
    if the_kubelets {
        mounts.bind(&ours, &theirs);
    } else {
        mounts.bind(&theirs, &ours);
    }
    if is_reloaded {
        reload_decides(&scene);
        wait_one_directory(&scene);
    } else {
        scene.reason(NAME, "conflict", RELOAD);
        let output = scene.registrar.run_cli(["doctor", "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let fault = &report["findings"][0];
        assert_eq!(fault["level"], "fault", "{report:#}");
        assert_eq!(
            fault["fix"], "node-storage-driver-registrar reload",
            "{report:#}"
        );
    }
    mounts.unmount(if the_kubelets { &theirs } else { &ours });
    if is_reloaded {
        scene.reason(NAME, "conflict", RELOAD);
        scene.registrar.succeed(&["reload"]);
    }
    wait_two_directories(&scene);
}
