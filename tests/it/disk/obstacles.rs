//! Files in the way of the link or of reg.sock: which ones the registrar replaces, and which ones it
//! waits for.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use bed::scene::{A_WHILE, NAME, OTHER, SOON, TAKE_OVER, in_both_layouts, is_alive, is_nothing};
use bed::{Behaviour, DriverStatus, FakeDriver, Layout, RawListener, Scene, dead_socket, stays};

use crate::setup;

/// The two paths that the registrar uses.
const PLACES: [fn(&Scene) -> PathBuf; 2] = [
    |scene| scene.node.link(NAME),
    |scene| scene.node.reg_socket(NAME),
];

/// Runs in both layouts and at both paths, each with a driver that answers; `occupy` puts a file at the
/// path before the registrar starts.
#[track_caller]
fn at_each_place<T>(
    more: &str,
    occupy: impl Fn(&Scene, PathBuf) -> T,
    then: impl Fn(&Scene, PathBuf, T),
) {
    for place in PLACES {
        in_both_layouts(|layout| {
            let mut scene = setup().layout(layout).more(more).set();
            fs::create_dir_all(scene.node.registry_dir()).unwrap();
            let _driver: FakeDriver = scene.node.driver(NAME);
            let path = place(&scene);
            let occupant = occupy(&scene, path.clone());
            scene.registrar.start();
            then(&scene, path, occupant);
        });
    }
}

/// The target of a foreign link.
fn elsewhere(scene: &Scene) -> PathBuf {
    scene.node.root().join("elsewhere.sock")
}

#[test]
fn a_link_that_dangles_is_replaced() {
    at_each_place(
        "",
        |_, path| symlink("/nowhere/at/all", path).unwrap(),
        |scene, _, ()| drop(scene.wait_published(NAME)),
    );
}

#[test]
fn a_dead_socket_is_replaced() {
    at_each_place(
        "",
        |_, path| dead_socket(&path),
        |scene, path, ()| {
            assert!(!path.exists() || path.metadata().unwrap().file_type().is_socket());
            scene.wait_published(NAME);
        },
    );
}

#[test]
fn a_link_to_a_dead_socket_is_replaced_and_the_socket_stays() {
    at_each_place(
        "",
        |scene, path| {
            dead_socket(&elsewhere(scene));
            symlink(elsewhere(scene), path).unwrap();
        },
        |scene, _, ()| {
            scene.wait_published(NAME);
            assert!(!is_nothing(&elsewhere(scene)));
        },
    );
}

/// The registrar's socket by another path: a link to it belongs to the registrar.
fn in_other_words(scene: &Scene) -> PathBuf {
    let socket = scene.node.reg_socket(NAME);
    let directory = socket.parent().unwrap();
    let back = Path::new("..").join(directory.file_name().unwrap());
    directory.join(back).join(socket.file_name().unwrap())
}

#[test]
fn a_link_to_the_registrars_own_socket_by_another_path_is_corrected() {
    in_both_layouts(|layout| {
        let mut scene = setup().layout(layout).set();
        let link = scene.node.link(NAME);
        symlink(in_other_words(&scene), &link).unwrap();
        let _driver = scene.node.driver(NAME);
        scene.registrar.start();
        let kubelet = scene.node.kubelet();
        scene.wait_published(NAME);
        kubelet.wait_registered(NAME, SOON);
        scene.phase(NAME, "registered");

        let staged = scene.node.root().join("staged");
        symlink(in_other_words(&scene), &staged).unwrap();
        fs::rename(&staged, &link).unwrap();
        scene.wait_published(NAME);
        let repaired = |driver: &DriverStatus| driver.link_repairs == 1;
        scene
            .registrar
            .wait_driver("it is counted", NAME, SOON, repaired);
        scene.phase(NAME, "registered");
    });
}

#[test]
fn a_live_foreign_socket_is_waited_for_and_its_end_is_noticed_at_once() {
    at_each_place(
        "",
        |_, path| RawListener::silent(&path),
        |scene, path, stranger| {
            let (ours, name) = (std::process::id(), fs::read_to_string("/proc/self/comm"));
            let owner = format!("pid {ours} ({}", name.unwrap().trim());
            let serves = format!(") serves {}", path.display());
            for words in [owner, serves] {
                scene.reason(NAME, "conflict", &words);
            }
            stays("it is left alone", A_WHILE, || is_alive(&path));
            // Its file stays, so only the end of the connection shows that it has ended.
            drop(stranger);
            scene.wait_published(NAME);
            scene.phase(NAME, "waiting-for-kubelet");
        },
    );
}

#[test]
fn a_live_foreign_link_is_waited_for_and_its_removal_is_noticed_at_once() {
    at_each_place(
        "",
        |scene, path| {
            symlink(elsewhere(scene), path).unwrap();
            RawListener::silent(&elsewhere(scene))
        },
        |scene, path, _stranger| {
            let words = format!("serves {}", path.display());
            scene.reason(NAME, "conflict", &words);
            assert_eq!(fs::read_link(&path).unwrap(), elsewhere(scene));
            fs::remove_file(&path).unwrap();
            scene.wait_published(NAME);
            assert!(is_alive(&elsewhere(scene)));
        },
    );
}

#[test]
fn a_live_foreign_socket_or_link_is_taken_over_where_that_is_asked_for() {
    at_each_place(
        TAKE_OVER,
        |_, path| RawListener::silent(&path),
        |scene, _, _stranger| drop(scene.wait_published(NAME)),
    );
    at_each_place(
        TAKE_OVER,
        |scene, path| {
            symlink(elsewhere(scene), path).unwrap();
            RawListener::silent(&elsewhere(scene))
        },
        |scene, _, _stranger| {
            scene.wait_published(NAME);
            assert!(is_alive(&elsewhere(scene)));
        },
    );
}

#[test]
fn an_owner_that_closes_connections_is_not_asked_at_full_speed() {
    at_each_place(
        "",
        |_, path| RawListener::curt(&path),
        |scene, _, stranger| {
            scene.phase(NAME, "conflict");
            let before = stranger.met();
            bed::never("a storm", std::time::Duration::from_secs(2), || {
                stranger.met() > before + 20
            });
            drop(stranger);
            scene.wait_published(NAME);
        },
    );
}

#[test]
fn a_regular_file_is_never_deleted_and_the_registrar_publishes_when_it_is_gone() {
    for more in ["", TAKE_OVER] {
        at_each_place(
            more,
            |_, path| fs::write(path, "precious").unwrap(),
            |scene, path, ()| {
                let words = format!("{} is a regular file, neither", path.display());
                scene.reason(NAME, "conflict", &words);
                stays("the file stays", A_WHILE, || {
                    fs::read_to_string(&path).unwrap() == "precious"
                });
                fs::remove_file(&path).unwrap();
                scene.wait_published(NAME);
            },
        );
    }
}

#[test]
fn a_directory_is_never_deleted_and_the_registrar_publishes_when_it_is_gone() {
    at_each_place(
        TAKE_OVER,
        |_, path| fs::create_dir(path).unwrap(),
        |scene, path, ()| {
            let words = format!("{} is a directory, neither", path.display());
            scene.reason(NAME, "conflict", &words);
            stays("the directory stays", A_WHILE, || path.is_dir());
            fs::remove_dir(&path).unwrap();
            scene.wait_published(NAME);
        },
    );
}

#[test]
fn foreign_files_stay_when_the_registrar_stops() {
    at_each_place(
        "",
        |_, path| RawListener::silent(&path),
        |scene, path, _stranger| {
            scene.phase(NAME, "conflict");
            scene.registrar.signal(nix::sys::signal::Signal::SIGTERM);
            bed::eventually("the daemon ends", SOON, || {
                scene.registrar.status().is_none()
            });
            assert!(is_alive(&path));
        },
    );
}

#[test]
fn a_file_that_takes_the_place_of_a_published_link_is_left_there() {
    in_both_layouts(|layout: Layout| {
        let (scene, _driver) = setup().layout(layout).published();
        let link = scene.node.link(NAME);
        let file = scene.node.root().join("file");
        fs::write(&file, "precious").unwrap();
        fs::rename(&file, &link).unwrap();
        scene.reason(NAME, "conflict", "is a regular file");
        assert_eq!(fs::read_to_string(&link).unwrap(), "precious");
        fs::remove_file(&link).unwrap();
        scene.wait_published(NAME);
    });
}

/// The link belongs to the registrar, whichever process has taken the socket behind it.
#[test]
fn the_link_is_removed_with_its_name_even_if_a_foreign_process_has_the_socket() {
    let (scene, mut driver, kubelet) = setup().registered();
    let socket = scene.node.reg_socket(NAME);
    let stranger = RawListener::instead(&socket);
    scene.phase(NAME, "conflict");
    driver.restart(Behaviour::named(OTHER));
    kubelet.wait_deregistered(NAME, SOON);
    kubelet.wait_registered(OTHER, SOON);
    assert!(is_nothing(&scene.node.link(NAME)));
    assert!(is_alive(&socket), "theirs was touched");
    drop(stranger);
}
