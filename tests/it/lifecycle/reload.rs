//! A changed configuration that the daemon applies while the drivers stay registered.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use bed::kubelet::{Event, Mark};
use bed::scene::{DISCOVERY, KEEP, NAME, OTHER, SOON, in_both_layouts, is_nothing, nothing_since};
use bed::{Behaviour, DriverStatus, Scene, TestKubelet, stderr, stdout};

use crate::lifecycle::notify::under_systemd;
use crate::setup;

/// The kubelet has neither de-registered this driver nor registered it again.
#[track_caller]
fn untouched(kubelet: &TestKubelet, mark: Mark, driver: &str) {
    let touched = kubelet.events_since(mark, |event| {
        matches!(event, Event::Register { name, .. } | Event::Deregister { name, .. }
            if name == driver)
    });
    assert!(touched.is_empty(), "{touched:?}");
}

/// Writes another registry_dir to the configuration, and reloads.
fn move_registry(scene: &Scene) -> PathBuf {
    let old = scene.node.registry_dir();
    let new = scene.node.root().join("moved/plugins_registry");
    let config = scene.node.default_config(&[NAME]);
    scene
        .node
        .write_config(&config.replace(&format!("{old:?}"), &format!("{new:?}")));
    scene.registrar.succeed(&["reload"]);
    new
}

#[test]
fn a_driver_is_added_and_removed_and_the_others_stay_registered() {
    in_both_layouts(|layout| {
        let (scene, _driver, kubelet) = setup().layout(layout).registered();
        let mark = kubelet.mark();
        let _other = scene.node.driver(OTHER);
        scene.node.write_default_config(&[NAME, OTHER], "");
        scene.registrar.succeed(&["reload"]);
        kubelet.wait_registered(OTHER, SOON);
        scene.node.write_default_config(&[NAME], "");
        scene.registrar.succeed(&["reload"]);
        assert!(is_nothing(&scene.node.link(OTHER)));
        assert!(is_nothing(&scene.node.reg_socket(OTHER)));
        kubelet.wait_deregistered(OTHER, SOON);
        assert_eq!(scene.registrar.status().unwrap().drivers.len(), 1);
        scene.phase(NAME, "registered");
        untouched(&kubelet, mark, NAME);
    });
}

/// What the journal warns of about drivers that a reload took off the node.
fn told(scene: &Scene, about: &str) -> Vec<String> {
    let logs = scene.registrar.logs();
    let told = logs.lines().filter(|line| line.contains("the reload"));
    let told = told.filter(|line| line.contains(about) && line.contains("WARN"));
    told.map(str::to_owned).collect()
}

#[test]
fn a_removed_driver_is_told_with_its_key() {
    let (scene, _driver, kubelet) = setup().drivers(&[NAME, OTHER]).registered();
    let _other = scene.node.driver(OTHER);
    kubelet.wait_registered(OTHER, SOON);
    scene.phase(OTHER, "registered");
    scene.node.write_default_config(&[NAME], "");
    scene.registrar.succeed(&["reload"]);
    let told_of_other = told(&scene, OTHER);
    let removed = format!("[drivers.\"{OTHER}\"] was removed, and discovery.enabled is false");
    assert_eq!(told_of_other.len(), 1, "{told_of_other:?}");
    assert!(told_of_other[0].contains(&removed), "{told_of_other:?}");
    assert!(told(&scene, NAME).is_empty());
}

#[test]
fn a_driver_that_moves_is_told_with_the_key_and_a_reload_that_changes_nothing_is_silent() {
    let (scene, _driver, _kubelet) = setup().registered();
    move_registry(&scene);
    let moved = told(&scene, NAME);
    assert_eq!(moved.len(), 1, "{moved:?}");
    assert!(
        moved[0].contains("registry_dir has changed from "),
        "{moved:?}"
    );
    scene.phase(NAME, "registered");
    scene.registrar.succeed(&["reload"]);
    assert_eq!(told(&scene, NAME), moved);
}

/// The daemon is away while the configuration changes.
#[test]
fn a_driver_that_a_restart_takes_off_the_node_is_told_with_its_key() {
    let keep = "[service]\non_stop = \"keep\"\n";
    let (mut scene, _driver, kubelet) = setup().more(keep).registered();
    scene.registrar.stop();
    scene.node.write_default_config(&[OTHER], keep);
    scene.registrar.start();
    kubelet.wait_deregistered(NAME, SOON);
    let logs = scene.registrar.logs();
    let told: Vec<&str> = logs
        .lines()
        .filter(|line| line.contains("by the restart"))
        .collect();
    let removed = format!("[drivers.\"{NAME}\"] was removed, and discovery.enabled is false");
    assert!(
        matches!(told[..], [line] if line.contains("WARN") && line.contains(&removed)),
        "{told:?}"
    );
}

/// The directory in the mistyped path was never there.
#[test]
fn a_socket_that_was_mistyped_and_corrected_costs_nothing() {
    let (scene, _driver, kubelet) = setup().more(DISCOVERY).registered();
    let mark = kubelet.mark();
    let mistyped = scene.directory("locl").join("csi.sock");
    let table = format!("[drivers.{NAME:?}]\ncsi_socket = {mistyped:?}\n{DISCOVERY}");
    scene.node.write_default_config(&[], &table);
    scene.registrar.succeed(&["reload"]);
    scene
        .registrar
        .wait_driver("silent", NAME, SOON, |driver| !driver.answering);
    scene.node.write_default_config(&[NAME], DISCOVERY);
    let check = stdout(&scene.registrar.run_cli(["check"]));
    assert!(
        check.contains(NAME) && !check.contains("locl: was"),
        "{check}"
    );
    scene.registrar.succeed(&["reload"]);
    scene.registrar.wait_driver("back", NAME, SOON, |driver| {
        driver.answering && driver.phase == "registered"
    });
    assert_eq!(scene.ids(), [NAME]);
    nothing_since(&kubelet, mark);
}

#[test]
fn a_silent_driver_that_a_reload_withdraws_is_told() {
    let (scene, driver, kubelet) = setup().registered();
    drop(driver);
    scene
        .registrar
        .wait_driver("silent", NAME, SOON, |driver| !driver.answering);
    scene
        .node
        .write_default_config(&[NAME], "[defaults]\nwithdraw_after = \"1s\"\n");
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_deregistered(NAME, SOON);
    let withdrawn = told(&scene, NAME);
    assert_eq!(withdrawn.len(), 1, "{withdrawn:?}");
    assert!(
        withdrawn[0].contains("withdraw_after has changed"),
        "{withdrawn:?}"
    );
}

#[test]
fn another_endpoint_is_announced_and_told() {
    let (scene, driver, kubelet) = setup().registered();
    let elsewhere = scene.node.root().join("seen.sock");
    std::os::unix::fs::symlink(driver.path(), &elsewhere).unwrap();
    let table = format!("[drivers.{NAME:?}]\nendpoint = {elsewhere:?}\n");
    scene.node.write_default_config(&[], &table);
    scene.registrar.succeed(&["reload"]);
    bed::eventually("the kubelet knows the new endpoint", SOON, || {
        let endpoint = kubelet.registered().get(NAME).cloned();
        endpoint.is_some_and(|endpoint| endpoint == elsewhere.to_string_lossy())
    });
    let announced = told(&scene, NAME);
    assert_eq!(announced.len(), 1, "{announced:?}");
    assert!(
        announced[0].contains("endpoint has changed from "),
        "{announced:?}"
    );
}

#[test]
fn drivers_follow_a_directory_that_is_moved_and_leave_nothing_in_the_old_one() {
    let (scene, _driver, kubelet) = setup().registered();
    let new = move_registry(&scene);
    let socket = new.join(format!("{NAME}-reg.sock"));
    bed::eventually("the link leads to the new socket", SOON, || {
        std::fs::read_link(scene.node.link(NAME)).is_ok_and(|target| target == socket)
    });
    assert!(is_nothing(&scene.node.reg_socket(NAME)));
    scene.phase(NAME, "registered");
    kubelet.wait_registered(NAME, SOON);
    bed::wire::get_info(&socket).unwrap();
}

#[test]
fn a_change_that_the_kubelet_would_see_is_announced_and_another_is_not() {
    let (scene, driver, kubelet) = setup().registered();
    let mark = kubelet.mark();
    let quiet = "[defaults]\nretry_max = \"1s\"\nrequest_timeout = \"2s\"\n";
    scene.node.write_default_config(&[NAME], quiet);
    scene.registrar.succeed(&["reload"]);
    scene.reason(NAME, "registered", "registered by kubelet");
    scene.wait_published(NAME);
    nothing_since(&kubelet, mark);
    // The same socket by another path: the kubelet must get the new endpoint.
    let endpoint = scene.node.root().join("by-another-path.sock");
    std::os::unix::fs::symlink(driver.path(), &endpoint).unwrap();
    let loud = format!("[drivers.{NAME:?}]\nendpoint = {endpoint:?}\n");
    scene.node.write_default_config(&[], &loud);
    scene.registrar.succeed(&["reload"]);
    bed::eventually("the new endpoint", SOON, || {
        kubelet.registered().get(NAME) == Some(&endpoint.display().to_string())
    });
    scene.phase(NAME, "registered");
    drop(driver);
}

#[test]
fn a_bad_configuration_is_refused_and_changes_nothing() {
    let (scene, _driver, kubelet) = setup().registered();
    let mark = kubelet.mark();
    let before = scene.registrar.status().unwrap();
    for (bad, words) in [
        ("no_such_key = 1\n", "no_such_key"),
        ("[drivers.\"a\"]\ncsi_socket = \"relative\"\n", "csi_socket"),
        ("[broken\n", "config.toml"),
    ] {
        scene.node.write_config(bad);
        let output = scene.registrar.run_cli(["reload"]);
        assert_eq!(output.status.code(), Some(78), "{output:?}");
        assert!(stderr(&output).contains(words), "{output:?}");
        let after = scene.registrar.status().unwrap();
        assert_eq!(after.drivers, before.drivers);
        assert!(after.notes[0].contains(words), "{:?}", after.notes);
    }
    nothing_since(&kubelet, mark);
}

/// Two faults: a list on several lines for stderr, and a single line wherever lines are entries.
#[test]
fn a_refusal_is_readable_wherever_it_is_shown() {
    let (mut scene, notify) = under_systemd(&[NAME], "");
    scene.registrar.start();
    notify.wait_for("READY=1", SOON);
    scene
        .node
        .write_config("no_such_key = 1\n[log]\nlevel = \"loud\"\n");
    let output = scene.registrar.run_cli(["reload"]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    let file = scene.node.config_file().display().to_string();
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    let [head, level, key, end] = lines[..] else {
        panic!("{said}");
    };
    assert_eq!(head, "error: the configuration has 2 errors:");
    assert!(level.starts_with(&format!("  {file}: log.level = \"loud\": must be")));
    assert!(key.starts_with(&format!("  {file}: no_such_key = 1: unknown key")));
    assert_eq!(end, "the daemon keeps the old configuration");

    let expected = format!(
        "the daemon refused the changed configuration and keeps the old configuration until the next reload: \
         the configuration has 2 errors: {}; {}",
        level.trim(),
        key.trim()
    );
    let status = scene.registrar.run_cli(["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["notes"][0], *expected);
    let table = stdout(&scene.registrar.run_cli(["status"]));
    assert!(table.contains(&format!("note: {expected}")), "{table}");
    let line = notify.wait_for_status("the daemon refused", SOON);
    assert_eq!(line.fields["STATUS"], expected);
    let logs = scene.registrar.logs();
    assert_eq!(logs.matches(&expected).count(), 1, "{logs}");
}

/// As ExecReload= of the unit, whose stderr is the journal: the daemon has logged the errors there.
#[test]
fn the_journal_gets_the_errors_of_a_reload_once() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    scene.node.write_config("no_such_key = 1\n");
    let journal = scene.node.root().join("journal");
    let stream = std::fs::File::create(&journal).unwrap();
    let found = stream.metadata().unwrap();
    let mut reload = scene.registrar.command("reload");
    let inode = format!("{}:{}", found.dev(), found.ino());
    let done = reload.env("JOURNAL_STREAM", inode).stderr(stream).status();
    assert_eq!(done.unwrap().code(), Some(78));
    let said = std::fs::read_to_string(&journal).unwrap();
    assert!(!said.contains("no_such_key"), "{said}");
    assert!(
        said.starts_with("error: the daemon refused the changed configuration"),
        "{said}"
    );
    assert_eq!(scene.registrar.logs().matches("no_such_key").count(), 1);
}

/// Longer than any header of a message may be.
#[test]
fn a_long_list_of_faults_is_reported_whole() {
    let (scene, _driver, _kubelet) = setup().registered();
    let directory = scene.node.config_file().with_extension("d");
    std::fs::create_dir(&directory).unwrap();
    for number in 0..300 {
        let file = directory.join(format!("{number:03}.toml"));
        std::fs::write(file, format!("no_such_key_{number} = \"a\"\n")).unwrap();
    }
    let output = scene.registrar.run_cli(["reload"]);
    assert_eq!(output.status.code(), Some(78), "{output:?}");
    for number in [0, 150, 299] {
        let key = format!("no_such_key_{number}");
        assert!(stderr(&output).contains(&key), "{key}: {output:?}");
    }
}

#[test]
fn a_hangup_does_the_same() {
    let (scene, _driver, kubelet) = setup().registered();
    let mark = kubelet.mark();
    let _other = scene.node.driver(OTHER);
    scene.node.write_default_config(&[NAME, OTHER], "");
    scene.registrar.signal(nix::sys::signal::Signal::SIGHUP);
    kubelet.wait_registered(OTHER, SOON);
    untouched(&kubelet, mark, NAME);
}

#[test]
fn another_root_with_the_same_registry_touches_no_driver() {
    let (scene, _driver, kubelet) = setup().registered();
    let (root, registry) = (scene.node.kubelet_root(), scene.node.plugins_registry());
    let config = scene.node.default_config(&[NAME]);
    let named = format!("root_dir = {root:?}\nplugins_registry = {registry:?}\n");
    let config = config.replace(&format!("root_dir = {root:?}\n"), &named);
    scene.node.write_config(&config);
    scene.registrar.succeed(&["reload"]);
    let mark = kubelet.mark();
    let elsewhere = scene.node.root().join("elsewhere");
    let moved = config.replace(
        &format!("root_dir = {root:?}"),
        &format!("root_dir = {elsewhere:?}"),
    );
    assert_ne!(moved, config);
    scene.node.write_config(&moved);
    scene.registrar.succeed(&["reload"]);
    scene.phase(NAME, "registered");
    untouched(&kubelet, mark, NAME);
}

#[test]
fn a_withdrawal_by_hand_lasts_over_a_move_to_other_directories() {
    let (scene, _driver, kubelet) = setup().registered();
    scene.registrar.succeed(&["withdraw", NAME]);
    kubelet.wait_deregistered(NAME, SOON);
    move_registry(&scene);
    scene.phase(NAME, "withdrawn");
    assert!(is_nothing(&scene.node.link(NAME)));
    scene.registrar.succeed(&["publish", NAME]);
    kubelet.wait_registered(NAME, SOON);
}

/// An operator edits the file and restarts the unit.
#[test]
fn a_restart_with_other_directories_leaves_nothing_in_the_old_ones() {
    let mut scene = setup().more(KEEP).started();
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    let old = scene.node.plugins_registry();
    let new = scene.node.root().join("elsewhere/plugins_registry");
    std::fs::create_dir_all(&new).unwrap();
    let config = scene.node.default_config(&[NAME]) + KEEP;
    let root = format!("root_dir = {:?}\n", scene.node.kubelet_root());
    let moved = config.replace(&root, &format!("{root}plugins_registry = {new:?}\n"));
    assert_ne!(moved, config);
    scene.node.write_config(&moved);
    scene.registrar.restart();
    scene.phase(NAME, "waiting-for-kubelet");
    assert!(is_nothing(&old.join(format!("{NAME}-reg.sock"))));
    bed::wire::get_info(&new.join(format!("{NAME}-reg.sock"))).unwrap();
    kubelet.wait_deregistered(NAME, SOON);
    // Back again, this time with registry_dir as well.
    let sockets = scene.node.root().join("moved/plugins_registry");
    let back = config.replace(
        &format!("{:?}", scene.node.registry_dir()),
        &format!("{sockets:?}"),
    );
    assert_ne!(back, config);
    scene.node.write_config(&back);
    scene.registrar.restart();
    kubelet.wait_registered(NAME, SOON);
    assert!(is_nothing(&new.join(format!("{NAME}-reg.sock"))));
    assert!(is_nothing(&scene.node.reg_socket(NAME)));
}

/// The driver is slow to answer NodeGetInfo, and both the kubelet and the registrar wait for it.
#[test]
fn a_kubelets_yes_counts_though_the_settings_changed_during_its_call() {
    let scene = setup().started();
    let _driver = scene.node.behaving(
        NAME,
        Behaviour {
            delay: Duration::from_secs(2),
            ..Behaviour::named(NAME)
        },
    );
    scene.phase(NAME, "waiting-for-kubelet");
    let kubelet = scene.node.kubelet();
    let asked = |event: &Event| matches!(event, Event::Asked { .. });
    kubelet.wait_for("the kubelet asks", Mark::default(), SOON, asked);
    let slow = "[defaults]\nretry_max = \"1s\"\n";
    scene.node.write_default_config(&[NAME], slow);
    scene.registrar.succeed(&["reload"]);
    // A new call, not the call in progress.
    bed::wire::get_info(&scene.node.link(NAME)).expect("GetInfo is answered all the time");
    kubelet.wait_registered(NAME, SOON);
    let status = scene.phase(NAME, "registered");
    assert_eq!((status.registrations, status.announcements), (1, 1));
}

#[test]
fn what_was_counted_still_counts_when_settings_change() {
    let (scene, _driver, _kubelet) = setup().registered();
    std::fs::remove_file(scene.node.link(NAME)).unwrap();
    let wanted = |driver: &DriverStatus| driver.registrations == 2;
    let registrar = &scene.registrar;
    let before = registrar.wait_driver("registered again", NAME, SOON, wanted);
    let told = scene.registrar.logs().matches(": registered: ").count();
    let quiet = "[defaults]\nretry_max = \"1s\"\n";
    scene.node.write_default_config(&[NAME], quiet);
    scene.registrar.succeed(&["reload"]);
    let after = scene.phase(NAME, "registered");
    assert_eq!(after, before);
    assert!(after.link_repairs == 1, "{after:?}");
    let lines = scene.registrar.logs().matches(": registered: ").count();
    assert_eq!(lines, told, "{}", scene.registrar.logs());
}
