//! Drivers without a table in the configuration.

use std::fs;

use bed::scene::{A_WHILE, DISCOVERY, NAME, OTHER, SOON, is_nothing};
use bed::{Layout, Node, NotifySocket, eventually, never, stays, stdout};

use crate::http_client::get;
use crate::setup;

const SHARED: &str = "shared.name";

#[test]
fn a_driver_is_found_when_its_socket_appears_and_registered() {
    for layout in Layout::ALL {
        let scene = setup().layout(layout).discovery().started();
        let kubelet = scene.node.kubelet();
        assert!(scene.ids().is_empty());
        // A directory without a socket is not a driver.
        fs::create_dir(scene.directory(NAME)).unwrap();
        never("an empty directory is a driver", A_WHILE, || {
            !scene.ids().is_empty()
        });
        let driver = scene.node.driver(NAME);
        let endpoint = kubelet.wait_registered(NAME, SOON);
        assert_eq!(endpoint, driver.path().display().to_string());
        let _other = scene.node.driver(OTHER);
        kubelet.wait_registered(OTHER, SOON);
        scene.phase(NAME, "registered");
        scene.phase(OTHER, "registered");
    }
}

/// After a reboot, a driver that does not start leaves only its directory.
#[test]
fn a_directory_without_a_socket_is_named_until_it_has_a_driver_or_goes() {
    let scene = setup().discovery().set();
    for id in [NAME, OTHER, "left.behind", "scratch"] {
        fs::create_dir_all(scene.directory(id)).unwrap();
    }
    let nfs = scene.directory(OTHER).join("nfs.sock");
    let _other_name = std::os::unix::net::UnixListener::bind(nfs).unwrap();
    let listen = scene.node.root().join("http.sock");
    let http = format!("[http]\nlisten = \"unix:{}\"\n", listen.display());
    scene.configure_discovery(&format!("exclude = [\"scratch\"]\n{http}"));
    let mut scene = scene;
    scene.registrar.start();
    scene.wait_up();
    let note = || scene.registrar.status().unwrap().notes.join("\n");
    let named = |ids: &[&str]| {
        let note = note();
        let names = |id: &&str| note.contains(&*scene.directory(id).to_string_lossy());
        ids.iter().all(names)
    };
    let counted = |count: u32| {
        let metrics = get(&listen, "/metrics").body;
        metrics.contains(&format!("\nnsdr_directories_without_socket {count}\n"))
    };
    assert!(named(&[NAME, OTHER, "left.behind"]), "{}", note());
    assert!(!named(&["scratch"]), "{}", note());
    assert!(note().contains("(it contains nfs.sock)"), "{}", note());
    assert!(note().contains("discovery.exclude"), "{}", note());
    assert!(counted(3));
    let table = stdout(&scene.registrar.run_cli(["status"]));
    assert!(table.contains("note: no csi.sock in "), "{table}");
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    eventually("the driver is not named any more", SOON, || {
        !named(&[NAME]) && counted(2)
    });
    fs::remove_dir(scene.directory("left.behind")).unwrap();
    fs::rename(scene.directory(OTHER), scene.node.root().join("away")).unwrap();
    eventually("nothing is named any more", SOON, || {
        note().is_empty() && counted(0)
    });
}

#[test]
fn a_plugins_dir_that_is_missing_is_a_problem_of_the_node() {
    let (scene, _driver, _kubelet) = setup().more(DISCOVERY).registered();
    let plugins = scene.node.plugins_dir();
    scene.registrar.succeed(&["status", "--strict"]);
    let away = scene.node.root().join("away");
    fs::rename(&plugins, &away).unwrap();
    let missing = format!(
        "plugins_dir: {} is missing (is {} mounted?), so that",
        plugins.display(),
        plugins.parent().unwrap().display()
    );
    eventually("its absence is noted", SOON, || {
        let notes = scene.registrar.status().unwrap().notes;
        notes.iter().any(|note| note.starts_with(&missing))
    });
    assert_eq!(
        scene
            .registrar
            .run_cli(["status", "--strict"])
            .status
            .code(),
        Some(1)
    );
    fs::rename(&away, &plugins).unwrap();
    eventually("it is back", SOON, || {
        scene
            .registrar
            .run_cli(["status", "--strict"])
            .status
            .success()
    });
}

#[test]
fn plugins_dir_may_be_missing_replaced_and_moved() {
    let scene = setup().discovery().set();
    let plugins = scene.node.plugins_dir();
    fs::remove_dir_all(plugins.parent().unwrap()).unwrap();
    let mut scene = scene;
    scene.registrar.start();
    scene.wait_up();
    let driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    // plugins_dir is replaced by a directory with another driver in it.
    let away = scene.node.root().join("away");
    fs::rename(&plugins, &away).unwrap();
    scene.wait_forgotten(NAME);
    assert!(is_nothing(&scene.node.link(NAME)));
    let _other = scene.node.driver(OTHER);
    scene.phase(OTHER, "waiting-for-kubelet");
    fs::rename(away.join(NAME), scene.directory(NAME)).unwrap();
    scene.phase(NAME, "waiting-for-kubelet");
    drop(driver);
}

#[test]
fn a_table_refines_what_is_found_and_exclude_leaves_out() {
    let node = Node::new();
    let endpoint = node.root().join("seen-elsewhere.sock");
    let more = format!(
        "exclude = [\"scratch.*\", \"{OTHER}\", \"v[12]\"]\n\
         [drivers.{NAME:?}]\nendpoint = {endpoint:?}\n\
         [drivers.{OTHER:?}]\n\
         [drivers.alias]\ncsi_socket = {:?}\n",
        node.csi_socket("target")
    );
    let mut scene = setup().on(node).discovery().more(more).set();
    let ids = [NAME, OTHER, "target", "scratch.a", "v1", "v3", ".hidden"];
    let _drivers = ids.map(|id| scene.named(id, &format!("{}.test", id.trim_start_matches('.'))));
    fs::write(scene.node.plugins_dir().join("file"), "").unwrap();
    scene.registrar.start();
    scene.phase("v3", "waiting-for-kubelet");
    scene.phase("alias", "waiting-for-kubelet");
    assert_eq!(scene.ids(), ["alias", NAME, OTHER, "v3"]);
    let refined = scene.phase(NAME, "waiting-for-kubelet");
    assert_eq!(refined.endpoint, Some(endpoint.display().to_string()));
}

#[test]
fn drivers_that_exist_at_the_start_are_tried_before_ready() {
    let mut scene = setup().discovery().set();
    let notify = NotifySocket::bind(scene.node.root().join("notify"));
    scene.registrar = scene.registrar.with_env("NOTIFY_SOCKET", notify.path());
    let _driver = scene.node.driver(NAME);
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    let status = scene.registrar.status().unwrap();
    assert!(status.ready);
    assert_eq!(status.driver(NAME).unwrap().phase, "waiting-for-kubelet");
}

#[test]
fn of_two_directories_with_one_name_the_first_keeps_it_until_it_is_removed() {
    for layout in Layout::ALL {
        let scene = setup().layout(layout).discovery().started();
        let kubelet = scene.node.kubelet();
        let first = scene.named("first", SHARED);
        kubelet.wait_registered(SHARED, SOON);
        scene.phase("first", "registered");
        let second = scene.named("second", SHARED);
        scene.reason(
            "second",
            "conflict",
            "the driver \"first\" has the same name",
        );
        let mark = kubelet.mark();
        drop(first);
        fs::remove_dir_all(scene.directory("first")).unwrap();
        eventually("the second's endpoint", SOON, || {
            kubelet.registered().get(SHARED) == Some(&second.path().display().to_string())
        });
        scene.phase("second", "registered");
        scene.wait_forgotten("first");
        let counts = kubelet.counts_since(mark);
        assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    }
}

#[test]
fn a_second_directory_takes_over_at_once_when_the_first_was_not_registered() {
    let scene = setup().discovery().started();
    let first = scene.named("first", SHARED);
    scene.phase("first", "waiting-for-kubelet");
    let _second = scene.named("second", SHARED);
    scene.phase("second", "conflict");
    drop(first);
    fs::remove_dir_all(scene.directory("first")).unwrap();
    scene.phase("second", "waiting-for-kubelet");
    scene.wait_forgotten("first");
    assert!(!is_nothing(&scene.node.link(SHARED)));
}

#[test]
fn a_reload_applies_the_settings_of_discovery() {
    let scene = setup().discovery().started();
    let kubelet = scene.node.kubelet();
    let _drivers = [scene.node.driver(NAME), scene.node.driver(OTHER)];
    kubelet.wait_registered(NAME, SOON);
    kubelet.wait_registered(OTHER, SOON);
    let mark = kubelet.mark();
    scene.configure_discovery("exclude = [\"nfs*\"]\n");
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_deregistered(OTHER, SOON);
    assert_eq!(scene.ids(), [NAME]);
    scene.configure_discovery("");
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_registered(OTHER, SOON);
    // A table with the same values, and no table again: the cluster sees neither change.
    scene.configure_discovery(&format!("[drivers.{NAME:?}]\n"));
    scene.registrar.succeed(&["reload"]);
    scene.configure_discovery("");
    scene.registrar.succeed(&["reload"]);
    scene.phase(NAME, "registered");
    let counts = kubelet.counts_since(mark);
    assert_eq!((counts.registrations, counts.deregistrations), (1, 1));
    scene.node.write_default_config(&[NAME], "");
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_deregistered(OTHER, SOON);
    assert_eq!(scene.ids(), [NAME]);
    let _third = scene.node.driver("third.test");
    stays("discovery is off", A_WHILE, || scene.ids() == [NAME]);
    // Another plugins_dir has other drivers.
    let elsewhere = scene.node.root().join("elsewhere");
    let _fourth = bed::FakeDriver::start_in_new_directory(
        elsewhere.join("fourth.test/csi.sock"),
        bed::Behaviour::named("fourth.test"),
    );
    let config = scene.node.default_config(&[]).replace(
        &format!("{:?}", scene.node.plugins_dir()),
        &format!("{elsewhere:?}"),
    );
    scene.node.write_config(&format!("{config}\n{}", DISCOVERY));
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_registered("fourth.test", SOON);
    kubelet.wait_deregistered(NAME, SOON);
    assert_eq!(scene.ids(), ["fourth.test"]);
}

#[test]
fn check_says_that_discovery_is_on_and_where() {
    let scene = setup().discovery().more("exclude = [\"a*\"]\n").set();
    let said = stdout(&scene.registrar.succeed(&["check"]));
    let line = format!(
        "discovery is on: {}/*/csi.sock is a driver, except a*\n",
        scene.node.plugins_dir().display()
    );
    assert!(said.contains(&line), "{said}");
    scene.node.write_default_config(&[], "");
    let said = stdout(&scene.registrar.succeed(&["check"]));
    assert!(said.contains("discovery is off"), "{said}");
}

#[test]
fn nothing_wakes_the_daemon_while_nothing_happens() {
    let scene = setup().discovery().started();
    let _drivers = [scene.node.driver(NAME), scene.node.driver(OTHER)];
    scene.phase(NAME, "waiting-for-kubelet");
    scene.phase(OTHER, "waiting-for-kubelet");
    fs::create_dir(scene.directory("empty")).unwrap();
    std::thread::sleep(A_WHILE);
    let before = scene.registrar.wakeups();
    std::thread::sleep(A_WHILE * 2);
    let woken = scene.registrar.wakeups() - before;
    // Other tests create directories in /tmp, which the daemon watches. A daemon that reacts to its own
    // changes wakes thousands of times.
    assert!(woken <= 200, "{woken} wake-ups");
}
