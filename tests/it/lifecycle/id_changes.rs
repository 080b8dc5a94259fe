//! A driver that comes back in another directory, and a driver whose id changes in the configuration.

use std::fs;
use std::time::Duration;

use bed::driver::Call;
use bed::kubelet::Counts;
use bed::scene::{KEEP, NAME, SOON, is_nothing};
use bed::{
    Behaviour, FakeDriver, KubeletProcess, Layout, Release, Scene, eventually, identity, stdout,
};

use crate::setup;

/// A kubelet in its own process, so that its registrations survive a restart of the registrar.
/// Started before the registrar: a kubelet that starts while a link appears may take the link for a new one, and register
/// the driver twice.
fn kubelet(scene: &Scene) -> KubeletProcess {
    KubeletProcess::start(scene.node.kubelet_settings(Release::V1_36))
}

fn table(id: &str, keys: &str) -> String {
    format!("[drivers.{id:?}]\n{keys}\n")
}

#[track_caller]
fn wait_endpoint(kubelet: &KubeletProcess, driver: &FakeDriver) {
    let endpoint = driver.path().display().to_string();
    eventually("the kubelet has the endpoint", SOON, || {
        let has = kubelet.registered().get(NAME).cloned();
        if has.as_ref() == Some(&endpoint) {
            Ok(())
        } else {
            Err(format!("{has:?}"))
        }
    });
}

/// The old directory stays, with a socket on which no process listens.
#[test]
fn a_driver_that_comes_back_in_another_directory_is_registered_there_once() {
    for layout in Layout::ALL {
        let scene = setup().layout(layout).discovery().started();
        let kubelet = kubelet(&scene);
        let mut old = scene.named("old", NAME);
        wait_endpoint(&kubelet, &old);
        scene.phase("old", "registered");
        let mark = kubelet.mark();
        old.kill();
        scene.reason("old", "registered", "driver not responding");
        let new = scene.named("new", NAME);
        wait_endpoint(&kubelet, &new);
        scene.phase("new", "registered");
        scene.phase("old", "waiting-for-driver");
        let counts = kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
        // The first driver comes back, and another driver has its name.
        old.restart(Behaviour::named(NAME));
        scene.reason("old", "conflict", "\"new\" has the same name");
        assert_eq!(kubelet.registered()[NAME], new.path().display().to_string());
    }
}

/// Both run, and the registered driver stops.
#[test]
fn a_driver_that_waits_for_its_name_gets_it_when_the_other_driver_stops() {
    let scene = setup().discovery().started();
    let kubelet = kubelet(&scene);
    let mut old = scene.named("old", NAME);
    scene.phase("old", "registered");
    let new = scene.named("new", NAME);
    scene.phase("new", "conflict");
    old.stop();
    wait_endpoint(&kubelet, &new);
    scene.phase("new", "registered");
}

/// Both stop, and the driver that waited comes back first.
#[test]
fn a_driver_that_comes_back_gets_the_name_from_a_silent_driver() {
    let scene = setup().discovery().started();
    let kubelet = kubelet(&scene);
    let mut old = scene.named("old", NAME);
    scene.phase("old", "registered");
    let mut new = scene.named("new", NAME);
    scene.phase("new", "conflict");
    new.kill();
    scene.phase("new", "waiting-for-driver");
    old.kill();
    scene.reason("old", "registered", "driver not responding");
    new.restart(Behaviour::named(NAME));
    wait_endpoint(&kubelet, &new);
    scene.phase("new", "registered");
}

#[test]
fn a_restart_gives_a_claimed_name_to_the_driver_that_answers() {
    let mut scene = setup().discovery().more(KEEP).started();
    let kubelet = kubelet(&scene);
    let mut old = scene.named("old", NAME);
    scene.phase("old", "registered");
    scene.registrar.kill9();
    old.kill();
    let new = scene.named("new", NAME);
    let mark = kubelet.mark();
    scene.registrar.start();
    wait_endpoint(&kubelet, &new);
    scene.phase("new", "registered");
    let counts = kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
}

/// No other process has the name: a node that waits for /readyz must not read that all is well.
#[test]
fn a_conflict_between_our_own_drivers_is_not_ready() {
    let scene = setup().discovery().started();
    let socket = scene.node.root().join("http.sock");
    scene.configure_discovery(&format!("[http]\nlisten = \"unix:{}\"\n", socket.display()));
    scene.registrar.succeed(&["reload"]);
    let _kubelet = kubelet(&scene);
    let _old = scene.named("old", NAME);
    scene.phase("old", "registered");
    let readyz = || {
        let curl = std::process::Command::new("curl")
            .args(["-s", "--unix-socket"])
            .arg(&socket)
            .arg("http://localhost/readyz")
            .output();
        stdout(&curl.unwrap())
    };
    eventually("ready with one driver", SOON, || readyz() == "ok");
    let _new = scene.named("new", NAME);
    scene.phase("new", "conflict");
    let said = readyz();
    assert!(said.starts_with("new: conflict: "), "{said}");
}

/// How the operator applies a changed configuration: by a restart or by a reload.
#[derive(Clone, Copy, Debug)]
enum By {
    Restart,
    Reload,
}

/// Applies the changed configuration.
fn apply(scene: &mut Scene, more: &str, by: By) {
    match by {
        By::Restart => {
            scene.registrar.stop();
            scene.configure_discovery(more);
            scene.registrar.start();
            scene.wait_up();
        }
        By::Reload => {
            scene.configure_discovery(more);
            scene.registrar.succeed(&["reload"]);
        }
    }
}

#[test]
fn a_renamed_id_takes_its_registration_along_unseen() {
    for by in [By::Restart, By::Reload] {
        for below in [true, false] {
            let mut scene = setup().discovery().more(KEEP).set();
            // The driver's socket is in plugins_dir, where discovery would find it, or elsewhere.
            let socket = if below {
                scene.node.csi_socket("somewhere")
            } else {
                scene.node.root().join("apart/csi.sock")
            };
            let keys = format!("csi_socket = {socket:?}");
            let mut driver = FakeDriver::start_in_new_directory(&socket, Behaviour::named(NAME));
            scene.configure_discovery(&(KEEP.to_owned() + &table("old-id", &keys)));
            let kubelet = kubelet(&scene);
            scene.registrar.start();
            scene.phase("old-id", "registered");
            let (mark, link) = (kubelet.mark(), identity(&scene.node.link(NAME)));
            apply(&mut scene, &(KEEP.to_owned() + &table("new-id", &keys)), by);
            scene.phase("new-id", "registered");
            assert_eq!(scene.ids(), ["new-id"], "{by:?} {below}");
            assert_eq!(identity(&scene.node.link(NAME)), link, "{by:?} {below}");
            assert_eq!(
                kubelet.counts_since(mark),
                Counts::default(),
                "{by:?} {below}"
            );
            // The registrar supervises it under its new id.
            let moved = Behaviour {
                node_id: "node-2".to_owned(),
                ..Behaviour::named(NAME)
            };
            driver.restart(moved);
            eventually("announced", SOON, || {
                kubelet.counts_since(mark).registrations == 1
            });
            scene.phase("new-id", "registered");
        }
    }
}

/// Both tables pin the same name, and the driver's socket has moved as well.
#[test]
fn a_renamed_id_of_a_pinned_name_takes_its_registration_along() {
    for by in [By::Restart, By::Reload] {
        let mut scene = setup().discovery().more(KEEP).set();
        let keys = format!("name = {NAME:?}");
        let mut old = scene.named("old-id", NAME);
        scene.configure_discovery(&(KEEP.to_owned() + &table("old-id", &keys)));
        let kubelet = kubelet(&scene);
        scene.registrar.start();
        scene.phase("old-id", "registered");
        let mark = kubelet.mark();
        old.stop();
        fs::remove_dir(scene.directory("old-id")).unwrap();
        apply(&mut scene, &(KEEP.to_owned() + &table("new-id", &keys)), by);
        scene.phase("new-id", "registered");
        assert_eq!(kubelet.counts_since(mark), Counts::default());
        let new = scene.named("new-id", NAME);
        wait_endpoint(&kubelet, &new);
        let counts = kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    }
}

/// Discovery finds its socket, so the driver stays, with the directory's name as its id.
#[test]
fn a_driver_that_loses_its_table_is_found_without_an_event() {
    for by in [By::Restart, By::Reload] {
        let mut scene = setup().discovery().more(KEEP).set();
        let _driver = scene.named("directory", NAME);
        let keys = format!("csi_socket = {:?}", scene.node.csi_socket("directory"));
        scene.configure_discovery(&(KEEP.to_owned() + &table("id", &keys)));
        let kubelet = kubelet(&scene);
        scene.registrar.start();
        scene.phase("id", "registered");
        let mark = kubelet.mark();
        apply(&mut scene, KEEP, by);
        scene.phase("directory", "registered");
        // Back again.
        apply(&mut scene, &(KEEP.to_owned() + &table("id", &keys)), by);
        scene.phase("id", "registered");
        assert_eq!(scene.ids(), ["id"], "{by:?}");
        assert_eq!(kubelet.counts_since(mark), Counts::default(), "{by:?}");
    }
}

#[test]
fn a_driver_whose_table_is_removed_is_withdrawn_although_discovery_is_on() {
    for by in [By::Restart, By::Reload] {
        let mut scene = setup().discovery().more(KEEP).set();
        let socket = scene.node.root().join("apart/csi.sock");
        let _driver = FakeDriver::start_in_new_directory(&socket, Behaviour::named(NAME));
        let keys = format!("csi_socket = {socket:?}");
        scene.configure_discovery(&(KEEP.to_owned() + &table(NAME, &keys)));
        let kubelet = kubelet(&scene);
        scene.registrar.start();
        scene.phase(NAME, "registered");
        apply(&mut scene, KEEP, by);
        kubelet.wait_deregistered(NAME, SOON);
        assert!(scene.ids().is_empty(), "{by:?}");
        eventually("nothing is left", SOON, || {
            is_nothing(&scene.node.link(NAME)) && is_nothing(&scene.node.reg_socket(NAME))
        });
    }
}

/// Each id gets the other id's socket.
#[test]
fn two_ids_that_are_swapped_keep_their_registrations() {
    for by in [By::Restart, By::Reload] {
        let mut scene = setup().discovery().more(KEEP).set();
        let sockets = ["a", "b"].map(|id| scene.node.root().join(id).join("csi.sock"));
        let names = ["a.test", "b.test"];
        let _drivers = [0, 1]
            .map(|n| FakeDriver::start_in_new_directory(&sockets[n], Behaviour::named(names[n])));
        let tables = |order: [usize; 2]| {
            let keys = order.map(|n| format!("csi_socket = {:?}", sockets[n]));
            format!("{KEEP}{}{}", table("one", &keys[0]), table("two", &keys[1]))
        };
        scene.configure_discovery(&tables([0, 1]));
        let kubelet = kubelet(&scene);
        scene.registrar.start();
        scene.phase("one", "registered");
        scene.phase("two", "registered");
        let mark = kubelet.mark();
        apply(&mut scene, &tables([1, 0]), by);
        for (id, name) in [("one", "b.test"), ("two", "a.test")] {
            let status = scene.phase(id, "registered");
            assert_eq!(status.name.as_deref(), Some(name), "{by:?}");
        }
        assert_eq!(kubelet.counts_since(mark), Counts::default(), "{by:?}");
    }
}

/// The table that had the id is removed together with its driver; the renamed driver keeps its
/// registration.
#[test]
fn an_id_renamed_to_an_existing_id_replaces_it() {
    for by in [By::Restart, By::Reload] {
        for found in [true, false] {
            let mut scene = setup().discovery().more(KEEP).set();
            let first = scene.node.root().join("first/csi.sock");
            let second = if found {
                scene.node.csi_socket("x")
            } else {
                scene.node.root().join("second/csi.sock")
            };
            let _drivers = [(&first, "a.test"), (&second, "b.test")].map(|(socket, name)| {
                FakeDriver::start_in_new_directory(socket, Behaviour::named(name))
            });
            let at = |socket: &std::path::Path| format!("csi_socket = {socket:?}");
            let mut before = KEEP.to_owned() + &table("t", &at(&first));
            if !found {
                before += &table("x", &at(&second));
            }
            scene.configure_discovery(&before);
            let kubelet = kubelet(&scene);
            scene.registrar.start();
            scene.phase("t", "registered");
            scene.phase("x", "registered");
            let (mark, link) = (kubelet.mark(), identity(&scene.node.link("a.test")));
            apply(
                &mut scene,
                &(KEEP.to_owned() + &table("x", &at(&first))),
                by,
            );
            kubelet.wait_deregistered("b.test", SOON);
            let status = scene.phase("x", "registered");
            assert_eq!(status.name.as_deref(), Some("a.test"), "{by:?} {found}");
            assert_eq!(scene.ids(), ["x"]);
            assert_eq!(identity(&scene.node.link("a.test")), link);
            let counts = kubelet.counts_since(mark);
            let seen = (counts.registrations, counts.deregistrations);
            assert_eq!(seen, (0, 1), "{by:?} {found}");
        }
    }
}

/// Three tables become two, each with the socket of another table.
#[test]
fn no_driver_is_left_without_an_id_when_tables_are_shuffled() {
    for by in [By::Restart, By::Reload] {
        let mut scene = setup().discovery().more(KEEP).set();
        let socket = |n: usize| scene.node.root().join(format!("s{n}/csi.sock"));
        let sockets = [1, 2, 3, 4].map(socket);
        let names = ["a.test", "b.test", "d.test"];
        let _drivers = [0, 1, 2]
            .map(|n| FakeDriver::start_in_new_directory(&sockets[n], Behaviour::named(names[n])));
        let at = |n: usize| format!("csi_socket = {:?}", sockets[n]);
        let tables = [("A", 0), ("B", 1), ("D", 2)].map(|(id, n)| table(id, &at(n)));
        scene.configure_discovery(&(KEEP.to_owned() + &tables.concat()));
        let kubelet = kubelet(&scene);
        scene.registrar.start();
        for id in ["A", "B", "D"] {
            scene.phase(id, "registered");
        }
        let mark = kubelet.mark();
        let pinned = format!("{}\nname = \"d.test\"", at(3));
        let after = table("A", &pinned) + &table("B", &at(0));
        apply(&mut scene, &(KEEP.to_owned() + &after), by);
        kubelet.wait_deregistered("b.test", SOON);
        let named = |id: &str| scene.phase(id, "registered").name;
        assert_eq!(named("B").as_deref(), Some("a.test"), "{by:?}");
        assert_eq!(named("A").as_deref(), Some("d.test"), "{by:?}");
        assert_eq!(scene.ids(), ["A", "B"], "{by:?}");
        let counts = kubelet.counts_since(mark);
        let seen = (counts.registrations, counts.deregistrations);
        assert_eq!(seen, (0, 1), "{by:?}");
    }
}

/// A rollback: the driver moves, and moves back at once. The kubelet cannot use a dead socket, so the
/// registrar does not pace this change as it paces others.
#[test]
fn a_driver_that_moves_and_moves_back_is_registered_where_it_is() {
    let scene = setup().discovery().started();
    let kubelet = kubelet(&scene);
    let mut old = scene.named("old", NAME);
    scene.phase("old", "registered");
    old.kill();
    let new = scene.named("new", NAME);
    wait_endpoint(&kubelet, &new);
    scene.phase("new", "registered");
    drop(new);
    fs::remove_dir_all(scene.directory("new")).unwrap();
    old.restart(Behaviour::named(NAME));
    wait_endpoint(&kubelet, &old);
    scene.phase("old", "registered");
}

/// The kubelet cannot use the old socket, so the registrar announces the new one, although the kubelet
/// refuses its topology.
#[test]
fn a_driver_that_moves_with_another_topology_does_not_pass_for_registered() {
    let scene = setup().discovery().started();
    let _kubelet = kubelet(&scene);
    let mut old = scene
        .node
        .behaving("old", Behaviour::named(NAME).with_topology("zone", "a"));
    scene.phase("old", "registered");
    old.kill();
    let _new = scene
        .node
        .behaving("new", Behaviour::named(NAME).with_topology("zone", "b"));
    scene.reason("new", "rejected", "topology value collision");
}

/// A slow driver is not gone: after a restart the registrar gives its name to no other driver.
#[test]
fn a_driver_that_is_slow_keeps_its_name() {
    let quick = format!("{KEEP}[defaults]\nrequest_timeout = \"300ms\"\n");
    let mut scene = setup().discovery().more(&quick).started();
    let kubelet = kubelet(&scene);
    let mut old = scene.named("old", NAME);
    scene.phase("old", "registered");
    let _new = scene.named("new", NAME);
    scene.phase("new", "conflict");
    let mark = kubelet.mark();
    old.change(Behaviour::named(NAME).taking(Call::NodeGetInfo, Duration::from_secs(3)));
    scene.registrar.kill9();
    scene.registrar.start();
    scene.reason("old", "registered", "NodeGetInfo");
    scene
        .registrar
        .wait_driver("it answers", "old", SOON, |driver| {
            driver.phase == "registered"
                && !driver
                    .reason
                    .as_deref()
                    .unwrap_or("")
                    .contains("NodeGetInfo")
        });
    scene.phase("new", "conflict");
    assert_eq!(kubelet.counts_since(mark), Counts::default());
}
