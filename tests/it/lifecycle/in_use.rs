//! Nothing takes a driver off the node while its volumes are in use.

use std::fs;

use bed::kubelet::Mark;
use bed::scene::{NAME, OTHER, SOON, in_both_layouts, is_nothing, nothing_since};
use bed::{Behaviour, FakeDriver, KubeletProcess, Layout, Release, Scene, TestKubelet};
use bed::{eventually, stderr};

use crate::setup;

const POD: &str = "9f3c2a1e-0000-4000-8000-00000000000a";
const SECOND_POD: &str = "9f3c2a1e-0000-4000-8000-00000000000b";

/// Two volumes of the driver, of two pods.
fn use_volumes(scene: &Scene) {
    let volumes = scene.node.volumes();
    volumes.pod(POD, "pvc-1", NAME, "handle-1");
    volumes.pod(SECOND_POD, "pvc-1", NAME, "handle-1");
    volumes.inline(SECOND_POD, "scratch", NAME);
    volumes.staged_from_1_24("5e8d", NAME, "handle-1");
}

/// The driver still has its link, and the kubelet has noticed nothing.
#[track_caller]
fn stays(scene: &Scene, kubelet: &TestKubelet, mark: Mark) {
    assert!(scene.node.link(NAME).is_symlink());
    assert!(!is_nothing(&scene.node.reg_socket(NAME)));
    nothing_since(kubelet, mark);
}

/// A registered driver with volumes in use.
fn used(layout: Layout) -> (Scene, FakeDriver, TestKubelet, Mark) {
    let (scene, driver, kubelet) = setup().layout(layout).registered();
    use_volumes(&scene);
    let mark = kubelet.mark();
    (scene, driver, kubelet, mark)
}

#[test]
fn withdraw_refuses_with_the_volumes_and_the_pods() {
    in_both_layouts(|layout| {
        let (scene, _driver, kubelet, mark) = used(layout);
        let refused = scene.registrar.run_cli(["withdraw", NAME]);
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
        let said = stderr(&refused);
        for word in ["2 volumes are in use", POD, SECOND_POD, "--force", NAME] {
            assert!(said.contains(word), "{word}: {said}");
        }
        stays(&scene, &kubelet, mark);
        scene.phase(NAME, "registered");
        scene.node.volumes().remove_all();
        scene.registrar.succeed(&["withdraw", NAME]);
        kubelet.wait_deregistered(NAME, SOON);
        scene.phase(NAME, "withdrawn");
    });
}

#[test]
fn force_withdraws_all_the_same_and_the_journal_says_what_was_in_use() {
    let (scene, _driver, kubelet, _) = used(Layout::TwoDirectories);
    scene.registrar.succeed(&["withdraw", "--force", NAME]);
    kubelet.wait_deregistered(NAME, SOON);
    scene.phase(NAME, "withdrawn");
    let logs = scene.registrar.logs();
    assert!(
        logs.contains("withdrawn by force: 2 volumes are in use"),
        "{logs}"
    );
    // What is done already is not refused.
    scene.registrar.succeed(&["withdraw", NAME]);
    scene.registrar.succeed(&["publish", NAME]);
    kubelet.wait_registered(NAME, SOON);
}

#[test]
fn volumes_that_cannot_be_read_count_as_in_use() {
    let (scene, _driver, kubelet) = setup().registered();
    let unreadable = scene.node.volumes().pod_dir(POD, "pvc-1");
    unreadable.put("{\"driverName\":");
    let mark = kubelet.mark();
    let refused = scene.registrar.run_cli(["withdraw", NAME]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    let said = stderr(&refused);
    let file = unreadable.file().display().to_string();
    for word in ["not known", &file, "--force"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    stays(&scene, &kubelet, mark);
}

#[test]
fn a_stop_withdraws_only_what_is_not_in_use() {
    in_both_layouts(|layout| {
        let mut scene = setup().layout(layout).drivers(&[NAME, OTHER]).started();
        let kubelet = scene.node.kubelet();
        let _drivers = [NAME, OTHER].map(|id| scene.node.driver(id));
        for id in [NAME, OTHER] {
            kubelet.wait_registered(id, SOON);
            scene.phase(id, "registered");
        }
        use_volumes(&scene);
        assert_eq!(scene.registrar.stop().code(), Some(0));
        kubelet.wait_deregistered(OTHER, SOON);
        assert!(is_nothing(&scene.node.link(OTHER)));
        assert!(is_nothing(&scene.node.reg_socket(OTHER)));
        let mark = kubelet.mark();
        stays(&scene, &kubelet, mark);
        let logs = scene.registrar.logs();
        let last = logs.lines().last().unwrap_or_default();
        let said = format!("{NAME}: 2 volumes are in use by pods {POD}, {SECOND_POD}");
        assert!(last.contains(&said), "{logs}");
        assert!(!last.contains(OTHER), "{logs}");
        scene.registrar.start();
        let status = scene.phase(NAME, "registered");
        assert_eq!(status.registrations, 1, "{status:?}");
        kubelet.wait_registered(OTHER, SOON);
        assert_eq!(kubelet.counts_since(mark).deregistrations, 0);
    });
}

#[test]
fn on_stop_withdraw_withdraws_what_is_in_use() {
    let (mut scene, _driver, kubelet) = setup()
        .more("[service]\non_stop = \"withdraw\"\n")
        .registered();
    use_volumes(&scene);
    scene.registrar.stop();
    kubelet.wait_deregistered(NAME, SOON);
    assert!(is_nothing(&scene.node.link(NAME)));
    assert!(is_nothing(&scene.node.reg_socket(NAME)));
}

#[test]
fn a_kubelet_root_without_pods_has_no_volumes() {
    let (mut scene, _driver, kubelet) = setup().registered();
    let volumes = scene.node.volumes();
    volumes.staged_from_1_24("5e8d", NAME, "handle-1");
    fs::remove_dir(volumes.pods()).unwrap();
    scene.registrar.stop();
    kubelet.wait_deregistered(NAME, SOON);
    assert!(is_nothing(&scene.node.link(NAME)));
}

/// As the package does on removal, after it has stopped the unit.
#[test]
fn the_removal_of_the_package_keeps_what_is_in_use_and_says_how_to_finish() {
    in_both_layouts(|layout| {
        for lost in ["nothing", "state.json", "config.toml"] {
            let (mut scene, _driver, kubelet, mark) = used(layout);
            scene.registrar.stop();
            match lost {
                "state.json" => fs::remove_dir_all(scene.node.runtime_dir()).unwrap(),
                "config.toml" => scene.node.write_config("nonsense = 1\n"),
                _ => {}
            }
            let cleaned = scene.registrar.run_cli(["clean-up"]);
            let said = stderr(&cleaned);
            stays(&scene, &kubelet, mark);
            let [link, socket] = [scene.node.link(NAME), scene.node.reg_socket(NAME)];
            let finish = format!("rm {} {}", link.display(), socket.display());
            for word in ["2 volumes are in use", POD, &finish] {
                assert!(said.contains(word), "without {lost}: {word}: {said}");
            }
            scene.node.volumes().remove_all();
            let cleaned = scene.registrar.run_cli(["clean-up"]);
            assert!(is_nothing(&link) && is_nothing(&socket), "{cleaned:?}");
            kubelet.wait_deregistered(NAME, SOON);
        }
    });
}

#[test]
fn a_discovered_driver_whose_directory_is_gone_stays() {
    let scene = setup()
        .discovery()
        .more("[defaults]\nwithdraw_after = \"1s\"\n")
        .started();
    let kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    use_volumes(&scene);
    let mark = kubelet.mark();
    drop(driver);
    fs::remove_dir_all(scene.directory(NAME)).unwrap();
    let words = "its directory is gone, and the registration stays: 2 volumes are in use";
    scene.reason(NAME, "registered", words);
    stays(&scene, &kubelet, mark);
    let _back = scene.node.driver(NAME);
    eventually("it is as before", SOON, || {
        let now = scene.registrar.status().ok_or("no status")?;
        let reason = now.drivers[0].reason.clone().unwrap_or_default();
        let is_over = now.drivers[0].answering && !reason.contains("volumes");
        is_over.then_some(()).ok_or(reason)
    });
    nothing_since(&kubelet, mark);
}

#[test]
fn a_driver_that_is_away_for_longer_than_withdraw_after_stays() {
    let (scene, driver, kubelet) = setup()
        .more("[defaults]\nwithdraw_after = \"1s\"\n")
        .registered();
    use_volumes(&scene);
    let mark = kubelet.mark();
    drop(driver);
    let words = "although withdraw_after has passed: 2 volumes are in use";
    scene.reason(NAME, "registered", words);
    stays(&scene, &kubelet, mark);
}

#[test]
fn a_driver_that_comes_back_under_another_name_stays_as_it_was() {
    let (scene, driver, kubelet, mark) = used(Layout::TwoDirectories);
    drop(driver);
    let renamed = scene.node.behaving(NAME, Behaviour::named(OTHER));
    let words = format!("the driver calls itself {OTHER} now; {NAME} stays registered: 2 volumes");
    let status = scene.reason(NAME, "registered", &words);
    assert!(!status.answering, "{status:?}");
    stays(&scene, &kubelet, mark);
    assert!(is_nothing(&scene.node.link(OTHER)));
    drop(renamed);
    let _back = scene.node.driver(NAME);
    scene
        .registrar
        .wait_driver("it is as before", NAME, SOON, |driver| driver.answering);
    nothing_since(&kubelet, mark);
}

/// With this configuration in place of the table of the driver.
fn lose_the_table(scene: &Scene, more: &str) {
    scene.node.write_default_config(&[], more);
}

#[test]
fn a_driver_whose_table_is_gone_stays_until_its_pods_are() {
    let (mut scene, _driver, kubelet, mark) = used(Layout::TwoDirectories);
    lose_the_table(&scene, "");
    scene.registrar.succeed(&["reload"]);
    let words = format!(
        "[drivers.\"{NAME}\"] was removed, and discovery.enabled is false, and the registration stays: 2 volumes"
    );
    scene.reason(NAME, "registered", &words);
    stays(&scene, &kubelet, mark);
    // Neither a reload nor a restart changes that.
    scene.registrar.succeed(&["reload"]);
    scene.registrar.kill9();
    scene.registrar.start();
    let status = scene.reason(NAME, "registered", &words);
    assert_eq!(
        status.csi_socket,
        scene.node.csi_socket(NAME).to_str().unwrap()
    );
    eventually("it answers", SOON, || {
        let now = scene.registrar.status().ok_or("no status")?;
        now.drivers[0].answering.then_some(()).ok_or("silent")
    });
    stays(&scene, &kubelet, mark);
    scene.node.volumes().remove_all();
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_deregistered(NAME, SOON);
    scene.wait_forgotten(NAME);
    assert!(is_nothing(&scene.node.link(NAME)));
    assert!(is_nothing(&scene.node.reg_socket(NAME)));
}

#[test]
fn a_restart_that_has_lost_a_driver_in_use_keeps_it_and_one_with_its_table_back_is_as_before() {
    let (mut scene, _driver, kubelet, mark) = used(Layout::TwoDirectories);
    scene.registrar.kill9();
    lose_the_table(&scene, "");
    scene.registrar.start();
    scene.reason(NAME, "registered", "and the registration stays: 2 volumes");
    scene.node.write_default_config(&[NAME], "");
    scene.registrar.succeed(&["reload"]);
    scene
        .registrar
        .wait_driver("it is as before", NAME, SOON, |driver| {
            let reason = driver.reason.clone().unwrap_or_default();
            driver.answering && !reason.contains("volumes")
        });
    stays(&scene, &kubelet, mark);
}

#[test]
fn a_lost_driver_that_gets_a_table_with_another_id_is_the_same_driver() {
    let (scene, _driver, kubelet, mark) = used(Layout::TwoDirectories);
    lose_the_table(&scene, "");
    scene.registrar.succeed(&["reload"]);
    scene.reason(NAME, "registered", "the registration stays");
    let socket = scene.node.csi_socket(NAME);
    let table = format!("[drivers.other-id]\ncsi_socket = {socket:?}\n");
    lose_the_table(&scene, &table);
    scene.registrar.succeed(&["reload"]);
    scene
        .registrar
        .wait_driver("it has the new id", "other-id", SOON, |driver| {
            driver.answering
        });
    assert_eq!(scene.ids(), ["other-id"]);
    stays(&scene, &kubelet, mark);
}

#[test]
fn a_driver_in_use_leaves_its_id_to_another_driver() {
    let scene = setup().drivers(&["the-id", OTHER]).started();
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.behaving("the-id", Behaviour::named(NAME));
    let _other = scene.node.driver(OTHER);
    for (id, name) in [("the-id", NAME), (OTHER, OTHER)] {
        kubelet.wait_registered(name, SOON);
        scene.phase(id, "registered");
    }
    use_volumes(&scene);
    let mark = kubelet.mark();
    let socket = scene.node.csi_socket(OTHER);
    let table = format!("[drivers.the-id]\ncsi_socket = {socket:?}\n");
    lose_the_table(&scene, &table);
    scene.registrar.succeed(&["reload"]);
    scene.reason(NAME, "registered", "and the registration stays: 2 volumes");
    let status = scene.phase("the-id", "registered");
    assert_eq!(status.name.as_deref(), Some(OTHER));
    assert_eq!(kubelet.counts_since(mark).deregistrations, 0);
    stays(&scene, &kubelet, mark);
}

/// The driver is down, and the runtime directory was deleted while the registrar was down: nothing but the
/// volumes tells that the kubelet of this boot holds the driver.
fn without_a_state() -> (Scene, TestKubelet, Mark) {
    let (mut scene, driver, kubelet, mark) = used(Layout::TwoDirectories);
    scene.registrar.kill9();
    drop(driver);
    fs::remove_dir_all(scene.node.runtime_dir()).unwrap();
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    (scene, kubelet, mark)
}

#[test]
fn without_a_state_a_driver_in_use_that_does_not_answer_keeps_its_link() {
    let (mut scene, kubelet, mark) = without_a_state();
    stays(&scene, &kubelet, mark);
    let back = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    scene.registrar.kill9();
    fs::remove_dir_all(scene.node.runtime_dir()).unwrap();
    scene.node.volumes().remove_all();
    drop(back);
    scene.registrar.start();
    kubelet.wait_deregistered(NAME, SOON);
    scene.wait_no_link(NAME);
}

/// A driver in use that the configuration has lost, and a kubelet in a process of its own.
fn lost() -> (Scene, FakeDriver, KubeletProcess) {
    let scene = setup().started();
    let kubelet = KubeletProcess::start(scene.node.kubelet_settings(Release::V1_36));
    let driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    use_volumes(&scene);
    lose_the_table(&scene, "");
    scene.registrar.succeed(&["reload"]);
    scene.reason(NAME, "registered", "the registration stays: 2 volumes");
    (scene, driver, kubelet)
}

/// The driver is registered once more.
#[track_caller]
fn wait_registrations(scene: &Scene, number: u64) {
    scene
        .registrar
        .wait_driver("it is registered again", NAME, SOON, |driver| {
            driver.phase == "registered" && driver.registrations == number
        });
}

#[test]
fn a_lost_driver_outlives_the_end_of_its_registration() {
    let (scene, _driver, mut kubelet) = lost();
    kubelet.kill9();
    kubelet.restart();
    wait_registrations(&scene, 2);
    fs::remove_file(scene.node.link(NAME)).unwrap();
    wait_registrations(&scene, 3);
    scene.registrar.succeed(&["reannounce", NAME]);
    wait_registrations(&scene, 4);
    scene.reason(NAME, "registered", "the registration stays: 2 volumes");
    scene.node.volumes().remove_all();
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_deregistered(NAME, SOON);
    scene.wait_forgotten(NAME);
}

#[test]
fn a_lost_driver_that_no_kubelet_holds_at_a_start_is_published_again() {
    let mut scene = setup().started();
    let mut kubelet = KubeletProcess::start(scene.node.kubelet_settings(Release::V1_36));
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    use_volumes(&scene);
    scene.registrar.stop();
    kubelet.kill9();
    kubelet.restart();
    lose_the_table(&scene, "");
    scene.registrar.start();
    scene.reason(NAME, "registered", "the registration stays: 2 volumes");
    kubelet.wait_registered(NAME, SOON);
}

#[test]
fn a_lost_driver_that_is_withdrawn_by_force_can_be_published() {
    let (scene, _driver, kubelet) = lost();
    scene.registrar.succeed(&["withdraw", "--force", NAME]);
    kubelet.wait_deregistered(NAME, SOON);
    scene.phase(NAME, "withdrawn");
    scene.registrar.succeed(&["publish", NAME]);
    kubelet.wait_registered(NAME, SOON);
}

#[test]
fn a_driver_in_use_gets_another_id_also_when_its_name_was_its_id() {
    let scene = setup().drivers(&[NAME, OTHER]).started();
    let kubelet = scene.node.kubelet();
    let _drivers = [NAME, OTHER].map(|id| scene.node.driver(id));
    for id in [NAME, OTHER] {
        kubelet.wait_registered(id, SOON);
        scene.phase(id, "registered");
    }
    use_volumes(&scene);
    let mark = kubelet.mark();
    let socket = scene.node.csi_socket(OTHER);
    lose_the_table(
        &scene,
        &format!("[drivers.{NAME:?}]\ncsi_socket = {socket:?}\n"),
    );
    scene.registrar.succeed(&["reload"]);
    let other_id = format!("{NAME}.2");
    scene.reason(&other_id, "registered", "the registration stays: 2 volumes");
    assert_eq!(scene.phase(NAME, "registered").name.as_deref(), Some(OTHER));
    stays(&scene, &kubelet, mark);
}

/// With the sockets in another directory.
fn move_registry(scene: &Scene, drivers: &[&str]) {
    let moved = scene.node.default_config(drivers);
    let registry = format!("{:?}", scene.node.registry_dir());
    let elsewhere = format!("{:?}", scene.node.root().join("elsewhere"));
    assert!(moved.contains(&registry), "{moved}");
    scene
        .node
        .write_config(&moved.replace(&registry, &elsewhere));
}

#[test]
fn a_reload_that_would_move_a_silent_or_lost_driver_in_use_is_refused() {
    let (scene, driver, kubelet, mark) = used(Layout::TwoDirectories);
    let refused = |words: &str| {
        let reload = scene.registrar.run_cli(["reload"]);
        assert_eq!(reload.status.code(), Some(78), "{reload:?}");
        for word in [
            "registry_dir has changed",
            NAME,
            words,
            "2 volumes are in use",
        ] {
            assert!(stderr(&reload).contains(word), "{word}: {reload:?}");
        }
        stays(&scene, &kubelet, mark);
    };
    move_registry(&scene, &[]);
    refused("is lost");
    drop(driver);
    scene.reason(NAME, "registered", "not responding");
    move_registry(&scene, &[NAME]);
    refused("does not respond");
    // A driver that responds is published in the new place at once.
    let _back = scene.node.driver(NAME);
    scene
        .registrar
        .wait_driver("it answers", NAME, SOON, |driver| driver.answering);
    scene.registrar.succeed(&["reload"]);
    kubelet.wait_deregistered(NAME, SOON);
    kubelet.wait_registered(NAME, SOON);
    let target = fs::read_link(scene.node.link(NAME)).unwrap();
    assert!(
        target.starts_with(scene.node.root().join("elsewhere")),
        "{target:?}"
    );
}

#[test]
fn a_restart_with_other_directories_leaves_the_files_of_a_driver_in_use() {
    let (mut scene, driver, kubelet, mark) = used(Layout::TwoDirectories);
    scene.registrar.kill9();
    drop(driver);
    move_registry(&scene, &[NAME]);
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    stays(&scene, &kubelet, mark);
    let logs = scene.registrar.logs();
    assert!(
        logs.contains("although the directories have changed"),
        "{logs}"
    );
}

#[test]
fn the_removal_of_the_package_looks_where_the_last_run_looked() {
    let kubelets_root = |scene: &Scene| format!("root_dir = {:?}", scene.node.kubelet_root());
    for other_root in ["root_dir = \"/nonexistent\"", ""] {
        let (mut scene, _driver, kubelet, mark) = used(Layout::TwoDirectories);
        scene.registrar.stop();
        let config = scene.node.default_config(&[NAME]);
        let config = config.replace(&kubelets_root(&scene), other_root);
        scene.node.write_config(&config);
        let cleaned = scene.registrar.run_cli(["clean-up"]);
        stays(&scene, &kubelet, mark);
        assert!(
            stderr(&cleaned).contains("2 volumes are in use"),
            "{cleaned:?}"
        );
    }
}

#[test]
fn volumes_are_found_below_the_parent_of_a_registry_that_is_named_by_itself() {
    let scene = setup().set();
    let root = format!("root_dir = {:?}", scene.node.kubelet_root());
    let registry = format!("plugins_registry = {:?}", scene.node.plugins_registry());
    let config = scene.node.default_config(&[NAME]).replace(&root, &registry);
    scene.node.write_config(&config);
    let mut scene = scene;
    scene.registrar.start();
    let kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");
    use_volumes(&scene);
    let refused = scene.registrar.run_cli(["withdraw", NAME]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
}

#[test]
fn without_a_state_a_link_in_use_is_guarded_and_goes_when_it_is_free() {
    let (scene, kubelet, mark) = without_a_state();
    let logs = scene.registrar.logs();
    assert!(logs.contains("its volumes are in use, and"), "{logs}");
    let refused = scene.registrar.run_cli(["withdraw", NAME]);
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    stays(&scene, &kubelet, mark);
    scene.node.volumes().remove_all();
    scene.registrar.succeed(&["withdraw", NAME]);
    kubelet.wait_deregistered(NAME, SOON);
    assert!(is_nothing(&scene.node.link(NAME)));
}

#[test]
fn a_lost_driver_in_use_is_shown_also_without_its_directory_and_its_kubelet() {
    let scene = setup().discovery().started();
    let mut kubelet = KubeletProcess::start(scene.node.kubelet_settings(Release::V1_36));
    let driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    use_volumes(&scene);
    scene.configure_discovery(&format!("exclude = [{NAME:?}]\n"));
    scene.registrar.succeed(&["reload"]);
    scene.reason(NAME, "registered", "the registration stays: 2 volumes");
    drop(driver);
    kubelet.kill9();
    scene.phase(NAME, "waiting-for-driver");
    fs::remove_dir_all(scene.directory(NAME)).unwrap();
    // Discovery looks at plugins_dir for this directory, and for the one that went before it.
    let _other = scene.node.driver(OTHER);
    scene.phase(OTHER, "waiting-for-kubelet");
    assert_eq!(scene.ids().len(), 2, "{:?}", scene.ids());
}
