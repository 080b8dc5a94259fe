//! Who is at the link's place or at reg.sock's, and what becomes of them.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::{Path, PathBuf};

use bed::scene::{A_WHILE, NAME, OTHER, SOON, TAKE_OVER, in_both_layouts, is_alive, is_nothing};
use bed::{Behaviour, DriverStatus, FakeDriver, Layout, Scene, Stranger, dead_socket, stays};

use crate::setup;

/// The two places that are ours.
const PLACES: [fn(&Scene) -> PathBuf; 2] = [
    |scene| scene.node.link(NAME),
    |scene| scene.node.reg_socket(NAME),
];

/// Goes through both layouts and both places, each with a driver that answers; `occupy` puts
/// something at the place before the registrar starts.
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

/// A path for what a foreign link leads to.
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
fn a_socket_that_nobody_listens_on_is_replaced() {
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
fn a_link_to_a_socket_that_nobody_listens_on_is_replaced_and_the_socket_left_alone() {
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

/// Our socket by another path: a link that leads to it is nobody's but ours.
fn in_other_words(scene: &Scene) -> PathBuf {
    let socket = scene.node.reg_socket(NAME);
    let directory = socket.parent().unwrap();
    let back = Path::new("..").join(directory.file_name().unwrap());
    directory.join(back).join(socket.file_name().unwrap())
}

#[test]
fn a_link_to_our_own_socket_in_other_words_is_put_right() {
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
        |_, path| Stranger::silent(&path),
        |scene, path, stranger| {
            let words = format!("pid {} serves {}", std::process::id(), path.display());
            scene.reason(NAME, "conflict", &words);
            stays("it is left alone", A_WHILE, || is_alive(&path));
            // Its file stays, so that only the end of the connection tells.
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
            Stranger::silent(&elsewhere(scene))
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
        |_, path| Stranger::silent(&path),
        |scene, _, _stranger| drop(scene.wait_published(NAME)),
    );
    at_each_place(
        TAKE_OVER,
        |scene, path| {
            symlink(elsewhere(scene), path).unwrap();
            Stranger::silent(&elsewhere(scene))
        },
        |scene, _, _stranger| {
            scene.wait_published(NAME);
            assert!(is_alive(&elsewhere(scene)));
        },
    );
}

#[test]
fn an_owner_that_hangs_up_on_us_is_not_asked_at_full_speed() {
    at_each_place(
        "",
        |_, path| Stranger::curt(&path),
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
fn a_regular_file_is_never_deleted_and_published_over_when_it_goes() {
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
fn a_directory_is_never_deleted_and_published_over_when_it_goes() {
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
fn what_is_foreign_when_we_stop_stays() {
    at_each_place(
        "",
        |_, path| Stranger::silent(&path),
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

/// It is ours, whoever has taken the socket that it leads to.
#[test]
fn our_link_goes_with_its_name_though_a_stranger_has_the_socket() {
    let (scene, mut driver, kubelet) = setup().registered();
    let socket = scene.node.reg_socket(NAME);
    let stranger = Stranger::instead(&socket);
    scene.phase(NAME, "conflict");
    driver.restart(Behaviour::named(OTHER));
    kubelet.wait_deregistered(NAME, SOON);
    kubelet.wait_registered(OTHER, SOON);
    assert!(is_nothing(&scene.node.link(NAME)));
    assert!(is_alive(&socket), "theirs was touched");
    drop(stranger);
}
