//! Two directories that become one, or one that becomes two, while the registrar runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bed::scene::{NAME, SOON};
use bed::{Mounts, Scene, eventually, wire};

use crate::setup;

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

#[test]
fn a_link_that_makes_one_directory_of_two_is_followed() {
    let (scene, _driver) = setup().published();
    let registry = scene.node.registry_dir();
    fs::rename(&registry, registry.with_file_name("away")).unwrap();
    eventually("the directory is a link", SOON, || {
        // The registrar may be faster and create it again.
        match fs::remove_dir_all(&registry) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.to_string()),
        }
        symlink(scene.node.kubelet_registry_dir(), &registry).map_err(|error| error.to_string())
    });
    wait_one_directory(&scene);
    // Two directories again.
    fs::remove_file(&registry).unwrap();
    fs::create_dir(&registry).unwrap();
    assert_eq!(scene.wait_published(NAME).name, NAME);
    let link = scene.node.link(NAME);
    eventually("a link to the socket in our own directory", SOON, || {
        fs::read_link(&link).is_ok_and(|target| target == scene.node.reg_socket(NAME))
    });
    scene.wait_published(NAME);
}

/// Whichever of the two is mounted over the other.
#[test]
fn a_mount_that_makes_one_directory_of_two_is_followed() {
    for over_the_kubelets in [true, false] {
        std::thread::scope(|scope| {
            scope
                .spawn(|| mounted_over(over_the_kubelets))
                .join()
                .unwrap();
        });
    }
}

fn mounted_over(the_kubelets: bool) {
    let Some(mut mounts) = Mounts::private() else {
        bed::skipped("root, to mount one directory over another");
        return;
    };
    let (scene, _driver) = setup().published();
    let (ours, theirs) = (scene.node.registry_dir(), scene.node.kubelet_registry_dir());
    if the_kubelets {
        mounts.bind(&ours, &theirs);
    } else {
        mounts.bind(&theirs, &ours);
    }
    wait_one_directory(&scene);
    mounts.unmount(if the_kubelets { &theirs } else { &ours });
    let link = scene.node.link(NAME);
    eventually("a link to the socket in our own directory", SOON, || {
        fs::read_link(&link).is_ok_and(|target| target == scene.node.reg_socket(NAME))
    });
    scene.wait_published(NAME);
}

/// Each swap costs every driver a registration, so the registrar does not follow endless swaps at full
/// speed.
#[test]
fn directories_that_are_swapped_all_the_time_are_followed_more_and_more_slowly() {
    let (scene, _driver) = setup().published();
    let registry = scene.node.registry_dir();
    let apart = registry.with_file_name("apart");
    fs::rename(&registry, &apart).unwrap();
    eventually("the directory is a link", SOON, || {
        if let Err(error) = fs::remove_dir_all(&registry)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error.to_string());
        }
        symlink(&apart, &registry).map_err(|error| error.to_string())
    });
    let (start, mut rounds) = (Instant::now(), 0);
    let staged = registry.with_file_name("staged");
    while start.elapsed() < Duration::from_secs(8) {
        let targets = [scene.node.kubelet_registry_dir(), apart.clone()];
        symlink(&targets[rounds % 2], &staged).unwrap();
        fs::rename(&staged, &registry).unwrap();
        rounds += 1;
        thread::sleep(Duration::from_millis(100));
    }
    let followed = scene.registrar.logs();
    let followed = followed.matches("every driver is published again").count();
    // Three swaps at once, then after 1 s, 2 s, 4 s.
    assert!((1..=6).contains(&followed), "{followed} of {rounds}");
    // In the end the layout is as the last swap left it.
    symlink(scene.node.kubelet_registry_dir(), &staged).unwrap();
    fs::rename(&staged, &registry).unwrap();
    wait_one_directory(&scene);
}
