//! Each row of the plugin-watcher table in kubelet.md, for each release.

use std::fs;
use std::os::unix::fs::symlink;

use bed::kubelet::{Counts, Event};
use bed::scene::{NAME, SOON};
use bed::{Release, Timing};

use crate::scene::{ROUNDS, Scene, remove};
use crate::stand_in::StandIn;

#[test]
fn registers_a_link_to_a_live_socket() {
    for release in Release::ALL {
        let scene = Scene::new(release);
        let mark = scene.kubelet.mark();
        scene.make_link();
        let endpoint = scene.kubelet.wait_registered(NAME, SOON);
        assert_eq!(endpoint, scene.driver.path().to_str().unwrap());
        scene.wait_told("Notify(true)", 1);
        assert!(scene.registrar.told()[0].plugin_registered);
        let expected = Counts {
            registrations: 1,
            csi_node_writes: 1,
            node_patches: 1,
            asked: 1,
            ..Counts::default()
        };
        assert_eq!(scene.kubelet.counts_since(mark), expected);
        assert_eq!(scene.kubelet.cluster().node_ids[NAME], "node-1");
    }
}

#[test]
fn takes_about_a_second_with_the_real_times() {
    let mut scene = Scene::new(Release::V1_36);
    let real = scene
        .node
        .kubelet_settings(Release::V1_36)
        .with_timing(Timing::default());
    scene.kubelet.restart_as(real);
    let mark = scene.kubelet.mark();
    scene.make_link();
    let start = std::time::Instant::now();
    scene.kubelet.wait_for("register", mark, SOON, |event| {
        matches!(event, Event::Register { .. })
    });
    assert!(start.elapsed() < std::time::Duration::from_secs(5));
}

#[test]
fn never_looks_again_at_a_link_that_dangled() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        scene.registrar.end();
        remove(&scene.registrar.path);
        let mark = scene.kubelet.mark();
        scene.make_link();
        scene.kubelet.wait_for(
            "drop the event",
            mark,
            SOON,
            |event| matches!(event, Event::ErrorLine { text } if text.starts_with("stat file")),
        );
        let mark = scene.kubelet.mark();
        scene.registrar.bind();
        scene.nothing_since(mark);
    }
}

#[test]
fn retries_a_link_to_a_dead_socket() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        scene.registrar.end();
        let mut fast = scene.node.kubelet_settings(release);
        fast.timing = Timing::faster(100);
        scene.kubelet.restart_as(fast);
        scene.make_link();
        let mark = scene.kubelet.mark();
        bed::eventually("dials fail again and again", SOON, || {
            scene.kubelet.counts_since(mark).dial_failures >= 3
        });
        scene.registrar.bind();
        scene.kubelet.wait_registered(NAME, SOON);
    }
}

#[test]
fn does_not_notice_a_target_that_is_bound_again() {
    for release in Release::ALL {
        let mut scene = Scene::registered(release);
        let mark = scene.kubelet.mark();
        scene.registrar.end();
        remove(&scene.registrar.path);
        scene.registrar.bind();
        scene.nothing_since(mark);
        assert!(scene.kubelet.registered().contains_key(NAME));
    }
}

#[test]
fn deregisters_and_registers_a_recreated_link() {
    for release in Release::ALL {
        let scene = Scene::registered(release);
        for by_rename in [true, false] {
            let mark = scene.kubelet.mark();
            if by_rename {
                scene.rename_link_over();
            } else {
                remove(&scene.link());
                scene.make_link();
            }
            let gone = scene.kubelet.wait_for("let go", mark, SOON, |event| {
                matches!(event, Event::Deregister { .. })
            });
            let back = scene.kubelet.wait_for("register", mark, SOON, |event| {
                matches!(event, Event::Register { .. })
            });
            // The loop makes a round between the two.
            let round = scene.kubelet.settings().timing.loop_interval;
            assert!(back.at - gone.at > round / 2);
            let counts = scene.kubelet.counts_since(mark);
            assert_eq!((counts.csi_node_writes, counts.node_patches), (2, 2));
            assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
        }
    }
}

#[test]
fn deregisters_when_the_link_is_unlinked() {
    for release in Release::ALL {
        let scene = Scene::registered(release);
        let mark = scene.kubelet.mark();
        remove(&scene.link());
        scene.kubelet.wait_deregistered(NAME, SOON);
        let cluster = scene.kubelet.cluster();
        assert!(cluster.csi_node.is_empty() && cluster.node_ids.is_empty());
        assert_eq!(scene.kubelet.counts_since(mark).api_writes(), 2);
    }
}

#[test]
fn lets_go_of_a_driver_whose_link_went_while_it_registered() {
    for release in Release::ALL {
        let scene = Scene::new(release);
        scene
            .kubelet
            .fault(|faults| faults.delay_after_get_info = ROUNDS);
        let mark = scene.kubelet.mark();
        scene.make_link();
        scene.kubelet.wait_for("ask", mark, SOON, |event| {
            matches!(event, Event::Asked { .. })
        });
        remove(&scene.link());
        scene.kubelet.wait_for("register", mark, SOON, |event| {
            matches!(event, Event::Register { .. })
        });
        scene.kubelet.wait_deregistered(NAME, SOON);
    }
}

#[test]
fn does_not_notice_a_link_that_is_renamed_away() {
    for release in Release::ALL {
        let scene = Scene::registered(release);
        let mark = scene.kubelet.mark();
        fs::rename(scene.link(), scene.node.kubelet_root().join("away")).unwrap();
        scene.nothing_since(mark);
        assert!(scene.kubelet.registered().contains_key(NAME));
    }
}

#[test]
fn ignores_hidden_names() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        let mark = scene.kubelet.mark();
        let hidden = scene.node.plugins_registry().join(".hidden-reg.sock");
        symlink(&scene.registrar.path, hidden).unwrap();
        scene.nothing_since(mark);
        // The walk at the start does not see it either.
        scene.kubelet.restart();
        scene.nothing_since(mark);
    }
}

#[test]
fn logs_an_error_for_a_hidden_name_that_is_gone_when_looked_at() {
    for release in Release::ALL {
        let scene = Scene::new(release);
        let dir = scene.node.plugins_registry();
        let mark = scene.kubelet.mark();
        // Whether the temporary name still exists is a race; a dangling link never counts.
        symlink("/nowhere", dir.join(".staged")).unwrap();
        scene.kubelet.wait_for(
            "log an error",
            mark,
            SOON,
            |event| matches!(event, Event::ErrorLine { text } if text.contains(".staged")),
        );
    }
}

#[test]
fn does_not_follow_a_linked_directory_at_the_start() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        scene.kubelet.stop();
        let mark = scene.kubelet.mark();
        let dir = scene.node.plugins_registry().join("linked");
        symlink(scene.node.registry_dir(), dir).unwrap();
        scene.kubelet.restart();
        scene.nothing_since(mark);
    }
}

#[test]
fn watches_directories_inside() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        let dir = scene.node.plugins_registry().join("inside");
        let mark = scene.kubelet.mark();
        fs::create_dir(&dir).unwrap();
        // The directory is watched once the kubelet has looked at it: a marker shows that.
        bed::eventually("a name inside is looked at", SOON, || {
            let marker = dir.join(".marker");
            symlink("/nowhere", &marker).unwrap();
            remove(&marker);
            scene.kubelet.counts_since(mark).error_lines > 0
        });
        symlink(&scene.registrar.path, dir.join("reg.sock")).unwrap();
        scene.kubelet.wait_registered(NAME, SOON);
        // The walk of every release finds a plain socket inside.
        scene.kubelet.stop();
        remove(&dir.join("reg.sock"));
        scene.registrar.end();
        scene.registrar.path = dir.join("plain.sock");
        scene.registrar.bind();
        scene.kubelet.restart();
        scene.kubelet.wait_registered(NAME, SOON);
    }
}

#[test]
fn sees_nothing_after_its_directory_was_deleted_and_recreated() {
    for release in Release::ALL {
        let mut scene = Scene::registered(release);
        let dir = scene.node.plugins_registry();
        fs::remove_dir_all(&dir).unwrap();
        scene.kubelet.wait_deregistered(NAME, SOON);
        let mark = scene.kubelet.mark();
        fs::create_dir(&dir).unwrap();
        scene.make_link();
        scene.nothing_since(mark);
        scene.kubelet.restart();
        scene.rename_link_over();
        scene.kubelet.wait_registered(NAME, SOON);
    }
}

#[test]
fn sees_links_when_it_starts_from_1_25_on() {
    for release in Release::ALL {
        let mut scene = Scene::registered(release);
        let mark = scene.kubelet.mark();
        scene.kubelet.restart();
        if release == Release::V1_24 {
            scene.nothing_since(mark);
            assert!(scene.kubelet.registered().is_empty());
            scene.rename_link_over();
        }
        scene.kubelet.wait_registered(NAME, SOON);
        let counts = scene.kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 0));
        // The objects had these values already.
        assert_eq!(counts.api_writes(), 0);
    }
}

#[test]
fn sees_plain_sockets_when_it_starts() {
    for release in Release::ALL {
        let mut scene = Scene::new(release);
        scene.kubelet.stop();
        let path = scene.node.plugins_registry().join("plain-reg.sock");
        let _registrar = StandIn::serve(&path, NAME, scene.driver.path());
        scene.kubelet.restart();
        scene.kubelet.wait_registered(NAME, SOON);
    }
}

#[test]
fn a_paused_kubelet_sees_and_does_nothing() {
    let scene = Scene::new(Release::V1_36);
    scene.kubelet.fault(|faults| faults.pause = true);
    let mark = scene.kubelet.mark();
    scene.make_link();
    bed::never("it registers", ROUNDS, || {
        !scene.kubelet.registered().is_empty()
    });
    assert_eq!(scene.kubelet.counts_since(mark), Counts::default());
    scene.kubelet.fault(|faults| faults.pause = false);
    scene.kubelet.wait_registered(NAME, SOON);
}
