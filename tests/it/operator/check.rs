//! `check`: a dry run of the configuration.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;

use bed::scene::{DISCOVERY, NAME, OTHER, SOON};
use bed::{HangingMount, Scene, stderr, stdout};

use crate::setup;

const THIRD: &str = "third.csi.test";

/// What `check` prints on stdout, with `ROOT` for the directory of the test.
#[track_caller]
fn checked(scene: &Scene) -> String {
    let said = stdout(&scene.registrar.succeed(&["check"]));
    said.replace(&*scene.node.root().to_string_lossy(), "ROOT")
}

/// The line that starts with this word and names this.
fn line<'a>(said: &'a str, word: &str, about: &str) -> Option<&'a str> {
    let mut lines = said.lines();
    lines.find(|line| line.starts_with(word) && line.contains(about))
}

#[test]
fn names_the_files_that_it_read_and_those_that_it_passed_over() {
    let scene = setup().set();
    let config = scene.node.config_file();
    let drop_ins = config.with_file_name("config.d");
    fs::create_dir(&drop_ins).unwrap();
    for name in ["20.toml", "10.toml", "nfs.conf", "nfs.toml~", ".nfs.toml"] {
        fs::write(drop_ins.join(name), "").unwrap();
    }
    let said = stdout(&scene.registrar.succeed(&["check"]));
    let (config, drop_ins) = (config.display(), drop_ins.display());
    let expected = format!(
        "the configuration is valid\n\
         read           {config}\n\
         read           {drop_ins}/10.toml\n\
         read           {drop_ins}/20.toml\n\
         passed over    {drop_ins}/.nfs.toml: hidden, because its name starts with a dot\n\
         passed over    {drop_ins}/nfs.conf: not *.toml\n\
         passed over    {drop_ins}/nfs.toml~: not *.toml, but the backup of an editor\n\
         driver {NAME}\n"
    );
    assert!(said.starts_with(&expected), "{said}");
    assert!(
        said.ends_with("\nno daemon runs, so nothing was compared with it\n"),
        "{said}"
    );
}

#[test]
fn shows_what_discovery_finds_now() {
    let scene = setup().drivers(&[]).more(DISCOVERY).set();
    let _found = scene.node.driver(NAME);
    let plugins = scene.node.plugins_dir();
    fs::create_dir(plugins.join(OTHER)).unwrap();
    fs::create_dir(plugins.join(THIRD)).unwrap();
    let _socket = UnixListener::bind(plugins.join(THIRD).join("nfs.sock")).unwrap();
    let before = scene.files();
    let said = stdout(&scene.registrar.succeed(&["check"]));
    let plugins = plugins.display();
    for expected in [
        format!("discovered     {NAME}: {plugins}/{NAME}/csi.sock\n"),
        format!("no csi.sock    {plugins}/{OTHER}\n"),
        format!("no csi.sock    {plugins}/{THIRD} (it contains nfs.sock)\n"),
    ] {
        assert!(said.contains(&expected), "{expected} not in {said}");
    }
    assert_eq!(scene.files(), before);
}

/// The forecast, and what then happens.
#[test]
fn says_what_a_reload_would_do_to_each_driver_and_the_reload_does_it() {
    let (scene, driver, kubelet) = setup().drivers(&[NAME, OTHER]).registered();
    let _other = scene.node.driver(OTHER);
    kubelet.wait_registered(OTHER, SOON);
    scene.phase(OTHER, "registered");
    let said = checked(&scene);
    for name in [NAME, OTHER] {
        let expected = format!("leave alone    {name}");
        assert_eq!(line(&said, "leave alone", name), Some(&*expected), "{said}");
    }

    let endpoint = scene.node.root().join("by-another-path.sock");
    std::os::unix::fs::symlink(driver.path(), &endpoint).unwrap();
    let tables = format!("[drivers.{NAME:?}]\nendpoint = {endpoint:?}\n[drivers.{THIRD:?}]\n");
    scene.node.write_default_config(&[], &tables);
    let before = scene.registrar.status().unwrap();
    let said = checked(&scene);
    let withdraw = line(&said, "withdraw", OTHER).unwrap_or_else(|| panic!("{said}"));
    let removed = format!("[drivers.{OTHER:?}] was removed, and discovery.enabled is false");
    assert!(withdraw.ends_with(&removed), "{withdraw}");
    let announce = line(&said, "announce", NAME).unwrap_or_else(|| panic!("{said}"));
    let changed = format!("drivers.{NAME:?}.endpoint has changed from ");
    assert!(announce.contains(&changed), "{announce}");
    let new = line(&said, "announce", THIRD).unwrap_or_else(|| panic!("{said}"));
    assert!(new.contains(": new, when it answers on "), "{new}");
    assert_eq!(scene.registrar.status().unwrap(), before);

    scene.registrar.succeed(&["reload"]);
    kubelet.wait_deregistered(OTHER, SOON);
    bed::eventually("the new endpoint", SOON, || {
        kubelet.registered().get(NAME) == Some(&endpoint.display().to_string())
    });
    scene.phase(NAME, "registered");
    scene.phase(THIRD, "waiting-for-driver");
    let said = checked(&scene);
    for name in [NAME, THIRD] {
        assert!(line(&said, "leave alone", name).is_some(), "{said}");
    }
    assert!(line(&said, "withdraw", "").is_none(), "{said}");
    assert!(line(&said, "announce", "").is_none(), "{said}");
}

#[test]
fn a_wrong_pin_announces_nothing_and_counts_as_no_response() {
    let (scene, _driver, kubelet) = setup().registered();
    let pin = format!("[drivers.{NAME:?}]\nname = {OTHER:?}\n");
    scene.node.write_default_config(&[], &pin);
    let said = checked(&scene);
    let left = line(&said, "leave alone", NAME).unwrap_or_else(|| panic!("{said}"));
    let words = format!(
        "it reports the name {NAME:?}, so that it counts as not responding until it reports {OTHER:?}"
    );
    assert!(left.contains(&words), "{left}");
    assert!(line(&said, "announce", "").is_none(), "{said}");
    scene.registrar.succeed(&["reload"]);
    let after = scene
        .registrar
        .wait_driver("no answer", NAME, SOON, |driver| !driver.answering);
    assert_eq!(after.phase, "registered");
    assert!(kubelet.registered().contains_key(NAME));
}

#[test]
fn every_driver_is_announced_when_the_directories_move() {
    let (scene, _driver, _kubelet) = setup().registered();
    let config = scene.node.default_config(&[NAME]);
    let old = scene.node.registry_dir();
    let new = scene.node.root().join("moved");
    let moved = config.replace(&format!("{old:?}"), &format!("{new:?}"));
    assert_ne!(moved, config);
    scene.node.write_config(&moved);
    let said = stdout(&scene.registrar.succeed(&["check"]));
    let why = format!(
        "announce       {NAME}: registry_dir has changed from {} to {}\n",
        old.display(),
        new.display()
    );
    assert!(said.contains(&why), "{said}");
}

#[test]
fn a_plugins_dir_that_is_missing_is_a_warning_that_asks_for_the_mount() {
    let scene = setup().set();
    let root = scene.node.root();
    let missing = root.join("vdata/strage/plugins");
    let config = format!("plugins_dir = {missing:?}\n{DISCOVERY}");
    scene.node.write_config(&config);
    let output = scene.registrar.succeed(&["check"]);
    let nearest = missing.ancestors().find(|above| above.is_dir()).unwrap();
    assert_ne!(nearest, Path::new("/"));
    let warning = format!(
        "warning: plugins_dir = {missing:?}: {} is missing (is {} mounted?); check the spelling too\n",
        root.join("vdata/strage").display(),
        nearest.display()
    );
    assert!(stderr(&output).contains(&warning), "{output:?}");
    fs::create_dir_all(missing.parent().unwrap()).unwrap();
    fs::write(&missing, "").unwrap();
    let output = scene.registrar.succeed(&["check"]);
    let warning = format!("warning: plugins_dir = {missing:?} is not a directory\n");
    assert!(stderr(&output).contains(&warning), "{output:?}");
    fs::remove_file(&missing).unwrap();
    fs::create_dir(&missing).unwrap();
    let output = scene.registrar.succeed(&["check"]);
    assert!(!stderr(&output).contains(" is not a "), "{output:?}");
    assert!(!stderr(&output).contains("is missing"), "{output:?}");
}

#[test]
fn a_file_system_that_hangs_does_not_hold_it_up() {
    let scene = setup().more(DISCOVERY).set();
    let directory = scene.node.plugins_dir().join(OTHER);
    let Some(mount) = HangingMount::over(&directory) else {
        return;
    };
    let hang = mount.hang();
    let said = stdout(&scene.registrar.succeed(&["check"]));
    let expected = format!(
        "not looked at  {}: on a file system that may hang\n",
        directory.display()
    );
    assert!(said.contains(&expected), "{said}");
    drop(hang);
}

#[test]
fn a_registry_dir_that_hangs_is_a_failure_with_the_reason() {
    let scene = setup().set();
    let Some(mount) = HangingMount::over(scene.node.registry_dir()) else {
        return;
    };
    let hang = mount.hang();
    let output = scene.registrar.run_cli(["check"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stderr(&output);
    assert!(said.contains("registry_dir"), "{said}");
    assert!(said.contains("does not answer"), "{said}");
    drop(hang);
}
