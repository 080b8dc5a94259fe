//! Registrar, driver and directories appear in any order, and the driver is registered.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use bed::driver::Listening;
use bed::scene::{NAME, SOON, in_both_layouts, is_alive, is_nothing, nothing_since};
use bed::{
    Behaviour, FakeDriver, KubeletProcess, Node, Registrar, Release, Scene, Settings, eventually,
    identity,
};

use crate::{PROGRAM, setup};

#[test]
fn a_driver_that_starts_after_the_registrar_is_registered_through_the_link() {
    in_both_layouts(|layout| {
        let node = Node::with_layout(layout);
        node.write_default_config(&[NAME], "");
        let kubelet = KubeletProcess::start(Settings::new(node.kubelet_root(), Release::V1_36));
        let mut registrar = Registrar::new(PROGRAM, &node);
        registrar.start();
        registrar.wait_phase(NAME, "waiting-for-driver", SOON);
        let _driver =
            FakeDriver::start_in_new_directory(node.csi_socket(NAME), Behaviour::named(NAME));
        assert_eq!(
            kubelet.wait_registered(NAME, SOON),
            node.csi_socket(NAME).display().to_string()
        );
        let status = registrar.wait_phase(NAME, "registered", SOON);
        assert_eq!(status.registrations, 1);
        assert_eq!(registrar.status().unwrap().kubelet.pid, kubelet.pid());
        assert!(registrar.stop().success());
        kubelet.wait_deregistered(NAME, SOON);
    });
}

#[test]
fn a_driver_that_runs_before_the_registrar_is_registered_through_the_link() {
    in_both_layouts(|layout| {
        let mut scene = setup().layout(layout).set();
        let kubelet = scene.node.kubelet();
        let _driver = scene.node.driver(NAME);
        scene.registrar.start();
        kubelet.wait_registered(NAME, SOON);
        assert_eq!(scene.phase(NAME, "registered").registrations, 1);
    });
}

#[test]
fn the_registrar_still_waits_for_a_driver_that_starts_much_later() {
    // retry_max passes many times, as it does in a real hour.
    let mut scene = setup()
        .more("[defaults]\nretry_max = \"5ms\"\nrequest_timeout = \"10ms\"\n")
        .started();
    let mut driver = scene.node.behaving(
        NAME,
        Behaviour {
            listening: Listening::Mute,
            ..Behaviour::named(NAME)
        },
    );
    let mut met = 0;
    eventually("many tries", SOON, || {
        met = met.max(driver.connections());
        met > 50
    });
    assert!(scene.registrar.is_running());
    assert!(is_nothing(&scene.node.link(NAME)));
    driver.restart(Behaviour::named(NAME));
    scene.wait_published(NAME);
}

#[test]
fn names_the_missing_directory_and_follows_as_each_is_created() {
    let socket = "deep/er/still/csi.sock";
    let node_path = |scene: &Scene, below: &str| scene.node.root().join(below);
    let mut scene = setup().drivers(&[]).set();
    let path = node_path(&scene, socket);
    scene
        .node
        .write_default_config(&[], &format!("[drivers.{NAME:?}]\ncsi_socket = {path:?}\n"));
    scene.registrar.start();
    for missing in ["deep", "deep/er", "deep/er/still"] {
        let directory = node_path(&scene, missing);
        let question = match missing {
            // The driver creates its own directory.
            "deep/er/still" => String::new(),
            _ => format!(" (is {} mounted?)", directory.parent().unwrap().display()),
        };
        let words = format!(
            "{}: {} is missing{question}",
            path.display(),
            directory.display()
        );
        let is_said = |reason: &str| reason.ends_with(&words);
        scene
            .registrar
            .wait_driver("it is said", NAME, SOON, |driver| {
                driver.reason.as_deref().is_some_and(is_said)
            });
        scene.phase(NAME, "waiting-for-driver");
        fs::create_dir(&directory).unwrap();
    }
    let words = format!("waiting for {}", path.display());
    scene.reason(NAME, "waiting-for-driver", &words);
    let _driver = FakeDriver::start(&path, Behaviour::named(NAME));
    scene.wait_published(NAME);
}

#[test]
fn follows_a_directory_that_is_replaced_or_that_replaces_a_file() {
    let scene = setup().started();
    let directory = scene.node.plugins_dir().join(NAME);
    fs::write(&directory, "").unwrap();
    scene.phase(NAME, "waiting-for-driver");
    fs::remove_file(&directory).unwrap();
    for _ in 0..3 {
        let driver = scene.node.driver(NAME);
        scene.wait_published(NAME);
        drop(driver);
        fs::remove_dir_all(&directory).unwrap();
        scene.wait_no_link(NAME);
    }
    // plugins_dir is removed, and comes back with another inode.
    let (plugins, aside) = (scene.node.plugins_dir(), scene.node.root().join("aside"));
    fs::rename(&plugins, &aside).unwrap();
    fs::create_dir(&plugins).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.wait_published(NAME);
}

#[test]
fn follows_a_driver_whose_directory_is_moved_away_and_back_or_moved_into_place() {
    let (scene, _driver) = setup().published();
    let (place, aside) = (
        scene.node.plugins_dir().join(NAME),
        scene.node.root().join("aside"),
    );
    fs::rename(&place, &aside).unwrap();
    scene.wait_no_link(NAME);
    let words = format!("{} is missing", place.display());
    scene.reason(NAME, "waiting-for-driver", &words);
    fs::rename(&aside, &place).unwrap();
    scene.wait_published(NAME);
    fs::rename(&place, &aside).unwrap();
    scene.wait_no_link(NAME);
    symlink(&aside, &place).unwrap();
    scene.wait_published(NAME);
}

#[test]
fn a_socket_that_is_bound_and_does_not_listen_yet_is_waited_for() {
    let scene = setup().started();
    let mut driver = scene.node.behaving(
        NAME,
        Behaviour {
            listening: Listening::BoundOnly,
            ..Behaviour::named(NAME)
        },
    );
    scene.reason(NAME, "waiting-for-driver", "no process listens on");
    assert!(is_nothing(&scene.node.link(NAME)));
    // listen() is an event that no watch sees.
    driver.change(Behaviour::named(NAME));
    scene.wait_published(NAME);
}

#[test]
fn the_link_is_never_there_before_the_socket_listens() {
    in_both_layouts(|layout| {
        let mut scene = setup().layout(layout).set();
        let link = scene.node.link(NAME);
        let (over, seen) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    if let Some(before) = identity(&link) {
                        // Another link may have been created between the two calls.
                        assert!(is_alive(&link) || identity(&link) != Some(before));
                        seen.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
            for _ in 0..5 {
                scene.registrar.start();
                let driver = scene.node.driver(NAME);
                scene.wait_published(NAME);
                drop(driver);
                scene.wait_no_link(NAME);
                let _driver = scene.node.driver(NAME);
                scene.wait_published(NAME);
                // The withdrawal ends the loop: its last look finds a link that listens, or no link.
                let before = seen.load(Ordering::SeqCst);
                eventually("a look at the link", SOON, || {
                    seen.load(Ordering::SeqCst) > before
                });
                scene.registrar.succeed(&["withdraw", NAME]);
                scene.wait_no_link(NAME);
                scene.registrar.succeed(&["publish", NAME]);
                scene.wait_published(NAME);
                scene.registrar.succeed(&["withdraw", NAME]);
                scene.registrar.stop();
                fs::remove_file(scene.node.runtime_dir().join("state.json")).unwrap();
            }
            over.store(true, Ordering::SeqCst);
        });
    });
}

#[test]
fn a_driver_that_restarts_as_it_was_is_no_event_for_the_kubelet() {
    in_both_layouts(|layout| {
        let (scene, mut driver, kubelet) = setup().layout(layout).registered();
        let mark = kubelet.mark();
        driver.restart(Behaviour::named(NAME));
        scene.reason(NAME, "registered", "registered by kubelet (pid");
        driver.stop();
        scene.reason(NAME, "registered", "driver not responding");
        driver.restart(Behaviour::named(NAME));
        scene
            .registrar
            .wait_driver("it answers again", NAME, SOON, |driver| {
                !driver
                    .reason
                    .as_deref()
                    .unwrap_or("")
                    .contains("registration retained")
            });
        nothing_since(&kubelet, mark);
    });
}

#[test]
fn a_driver_with_another_name_gets_another_link_after_a_pause() {
    let (scene, mut driver, kubelet) = setup().registered();
    driver.restart(Behaviour::named("other.name"));
    scene.wait_no_link(NAME);
    assert!(is_nothing(&scene.node.link("other.name")));
    bed::never(
        "the new link comes too soon",
        Duration::from_secs(1),
        || !is_nothing(&scene.node.link("other.name")),
    );
    kubelet.wait_registered("other.name", SOON);
    assert!(!kubelet.registered().contains_key(NAME));
    assert!(is_nothing(&scene.node.reg_socket(NAME)));
}
