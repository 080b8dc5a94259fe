//! The gate of `status` and `wait`: which node passes, and the words about a node that does not.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;
use std::thread;
use std::time::{Duration, SystemTime};

use bed::scene::{NAME, OTHER, SOON};
use bed::{Process, Scene, Status, eventually, stderr, stdout};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

use crate::setup;

/// Runs the command, which must fail with 1, and returns its stderr.
#[track_caller]
fn fails(scene: &Scene, arguments: &[&str]) -> String {
    let output = scene.registrar.run_cli(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    stderr(&output)
}

/// `wait` with these arguments and a short timeout, which must pass; returns its stderr.
#[track_caller]
fn times_out(scene: &Scene, more: &[&str]) -> String {
    let said = fails(scene, &[&["wait", "--timeout", "200ms"], more].concat());
    assert!(said.contains("timed out after 200ms:"), "{said}");
    said
}

/// `wait` with these arguments, which must succeed.
#[track_caller]
fn passes(scene: &Scene, more: &[&str]) {
    let arguments = [&["wait", "--timeout", "20s"], more].concat();
    scene.registrar.succeed(&arguments);
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_registered_driver_that_stops_fails_both_and_is_named() {
    let (scene, mut driver, _kubelet) = setup().registered();
    for arguments in [&["status"][..], &["status", "--strict"], &["status", NAME]] {
        scene.registrar.succeed(arguments);
    }
    passes(&scene, &[]);
    passes(&scene, &["--strict"]);
    driver.stop();
    scene
        .registrar
        .wait_driver("no answer", NAME, SOON, |driver| !driver.answering);
    let reason = format!("{NAME}: registered: ");
    for more in [&[][..], &["--for", "ready"], &["--strict"], &[NAME]] {
        let said = times_out(&scene, more);
        assert!(
            said.contains(&reason) && said.contains("driver not responding"),
            "{said}"
        );
    }
    for arguments in [
        &["status"][..],
        &["status", "--strict"],
        &["status", NAME],
        &["status", "--json"],
    ] {
        assert_eq!(fails(&scene, arguments), "", "{arguments:?}");
    }
    // These say nothing about the driver's answers now.
    passes(&scene, &["--for", "registered"]);
    let said = times_out(&scene, &["--for", "serving"]);
    assert!(said.contains(NAME), "{said}");
}

/// The operator declared the driver, and accepts its users.
#[test]
fn strict_accepts_a_declared_driver_in_a_directory_of_others() {
    let (scene, _driver, _kubelet) = setup().registered();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(scene.directory(NAME), open).unwrap();
    eventually("the directory is noted", SOON, || {
        let notes = scene.registrar.status().unwrap().notes;
        notes
            .iter()
            .any(|note| note.starts_with(&format!("{NAME}: ")))
    });
    passes(&scene, &["--strict"]);
    scene.registrar.succeed(&["status", "--strict"]);
}

#[test]
fn every_driver_that_falls_short_has_its_line() {
    let scene = setup().drivers(&["a", "b", NAME]).started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let said = times_out(&scene, &[]);
    for id in ["a", "b"] {
        let socket = scene.node.csi_socket(id);
        let line = format!(
            "\n  {id}: waiting-for-driver: waiting for {}",
            socket.display()
        );
        assert!(said.contains(&line), "{line:?} is not in {said}");
    }
    assert!(
        said.starts_with("error: timed out after 200ms:\n"),
        "{said}"
    );
    assert!(!said.contains(NAME), "{said}");
    passes(&scene, &[NAME]);
    let said = times_out(&scene, &[NAME, "nfs"]);
    let unknown = format!("the daemon has no driver \"nfs\"; it has a, b, {NAME}");
    assert!(said.contains(&unknown), "{said}");
}

#[test]
fn only_strict_counts_the_notes_of_the_daemon() {
    let scene = setup().discovery().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    fs::create_dir(scene.directory(OTHER)).unwrap();
    let noted = |status: &Status| !status.notes.is_empty();
    eventually("the directory is noted", SOON, || {
        scene.registrar.status().filter(noted)
    });
    let note = format!("no csi.sock in {}", scene.directory(OTHER).display());
    passes(&scene, &[]);
    for more in [
        &["--strict"][..],
        &["--strict", "--for", "registered"],
        &["--strict", NAME],
    ] {
        let said = times_out(&scene, more);
        assert!(said.contains(&note), "{more:?}: {said}");
    }
    let table = stdout(&scene.registrar.succeed(&["status"]));
    assert!(table.contains(&note), "{table}");
    assert_eq!(fails(&scene, &["status", "--strict"]), "");
    assert_eq!(fails(&scene, &["status", "--strict", NAME]), "");
    // A timeout for another reason has the note too: it may be the cause.
    let said = times_out(&scene, &[OTHER]);
    assert!(said.contains(&format!("note: {note}")), "{said}");

    fs::remove_dir(scene.directory(OTHER)).unwrap();
    passes(&scene, &["--strict"]);
}

#[test]
fn a_refused_configuration_fails_both_and_not_a_driver_that_is_named() {
    let (scene, _driver, _kubelet) = setup().registered();
    let valid = fs::read_to_string(scene.node.config_file()).unwrap();
    scene.node.write_config("plugins_dir = \"here\"\n");
    assert_eq!(scene.registrar.run_cli(["reload"]).status.code(), Some(78));
    let said = times_out(&scene, &[]);
    assert!(
        said.contains("refused") && said.contains("plugins_dir"),
        "{said}"
    );
    assert_eq!(fails(&scene, &["status"]), "");
    scene.registrar.succeed(&["status", NAME]);
    passes(&scene, &[NAME]);
    times_out(&scene, &["--strict", NAME]);
    scene.node.write_config(&valid);
    scene.registrar.succeed(&["reload"]);
    passes(&scene, &["--strict"]);
    scene.registrar.succeed(&["status", "--strict"]);
}

#[test]
fn strict_refuses_a_configuration_that_the_daemon_has_not_read_yet() {
    let (scene, _driver, _kubelet) = setup().registered();
    let valid = fs::read_to_string(scene.node.config_file()).unwrap();
    scene.node.write_config("plugins_dir = \"here\"\n");
    passes(&scene, &[]);
    scene.registrar.succeed(&["status"]);
    let file = scene.node.config_file().display().to_string();
    for said in [
        times_out(&scene, &["--strict"]),
        fails(&scene, &["status", "--strict"]),
        fails(&scene, &["status", "--strict", "--json", NAME]),
    ] {
        for words in [
            "the daemon would refuse the configuration on disk",
            "plugins_dir",
            &file,
        ] {
            assert!(said.contains(words), "{words:?} is not in {said}");
        }
    }
    let mut wait = scene.registrar.command("wait");
    let mut waiting = Process::start(wait.args(["--strict", "--timeout", "20s"]));
    // It reads the bad configuration first.
    thread::sleep(Duration::from_millis(300));
    scene.node.write_config(&valid);
    scene.registrar.succeed(&["reload"]);
    assert!(waiting.wait(SOON).success());
}

/// The daemon reports nothing meanwhile.
#[test]
fn strict_reads_the_configuration_again_until_it_is_as_the_daemon_has_it() {
    let (scene, _driver, _kubelet) = setup().registered();
    let file = scene.node.config_file();
    let directory = file.parent().unwrap();
    let away = directory.with_file_name("away");
    fs::rename(directory, &away).unwrap();
    let said = times_out(&scene, &["--strict"]);
    assert!(said.contains("would refuse the configuration"), "{said}");
    let mut wait = scene.registrar.command("wait");
    let mut waiting = Process::start(wait.args(["--strict", "--timeout", "1h"]));
    // It misses the configuration first.
    thread::sleep(Duration::from_millis(300));
    // The time of the directory changes, and not the time of the file in it.
    fs::rename(&away, directory).unwrap();
    assert!(waiting.wait(SOON).success());
}

/// The configuration is valid, and says something else than the daemon does.
#[test]
fn strict_refuses_files_that_have_changed_since_the_daemon_read_them() {
    let (scene, _driver, _kubelet) = setup().registered();
    let main = scene.node.config_file();
    let drop_ins = main.with_file_name("config.d");
    let drop_in = drop_ins.join("nfs.toml");
    fs::create_dir_all(&drop_ins).unwrap();
    scene.registrar.succeed(&["reload"]);
    passes(&scene, &["--strict"]);
    let is_refused = |path: &Path| {
        let path = path.display();
        let words = format!(
            "{path} has changed since the daemon read the configuration: systemctl reload node-storage-driver-registrar"
        );
        for said in [
            times_out(&scene, &["--strict"]),
            times_out(&scene, &["--strict", NAME]),
            fails(&scene, &["status", "--strict"]),
        ] {
            assert!(said.contains(&words), "{words:?} is not in {said}");
        }
        passes(&scene, &[]);
        scene.registrar.succeed(&["status"]);
        scene.registrar.succeed(&["reload"]);
        passes(&scene, &["--strict"]);
        scene.registrar.succeed(&["status", "--strict"]);
    };
    // The kernel's clock for files lags behind by up to 10 ms.
    let tick = || thread::sleep(Duration::from_millis(20));
    tick();
    fs::write(&drop_in, "[log]\nlevel = \"debug\"\n").unwrap();
    is_refused(&drop_in);
    // A copy that keeps the time of its last change.
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
    tick();
    File::open(&main).unwrap().set_modified(old).unwrap();
    is_refused(&main);
    tick();
    fs::remove_file(&drop_in).unwrap();
    is_refused(&drop_ins);
}

/// A configuration that cannot be read in time is neither refused nor forgotten.
#[test]
fn a_configuration_that_is_not_read_in_time_is_named() {
    let (scene, _driver, _kubelet) = setup().registered();
    let file = scene.node.config_file();
    fs::remove_file(&file).unwrap();
    // Opening a pipe waits for a writer.
    mkfifo(&file, Mode::S_IRUSR).unwrap();
    let said = times_out(&scene, &["--strict"]);
    let words = "timed out after 200ms: the configuration on disk has not been read yet";
    assert!(said.contains(words), "{said}");
    let said = fails(&scene, &["status", "--strict"]);
    let words =
        "error: cannot check the configuration on disk: the configuration was not read within 10s";
    assert!(said.contains(words), "{said}");
    assert!(!said.contains("refuse"), "{said}");
}

#[test]
fn status_of_named_drivers_shows_and_judges_these_alone() {
    let scene = setup().drivers(&["a", OTHER]).started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.named("a", NAME);
    scene.phase("a", "registered");
    for driver in ["a", NAME] {
        let output = scene.registrar.succeed(&["status", driver]);
        let table = stdout(&output);
        assert!(!table.contains(OTHER), "{table}");
        let output = scene.registrar.succeed(&["status", "--json", driver]);
        let status = Status::parse(&output.stdout);
        assert_eq!(status.drivers.len(), 1, "{status:?}");
        assert_eq!(status.drivers[0].id, "a");
    }
    assert_eq!(fails(&scene, &["status", "a", OTHER]), "");
    let output = scene.registrar.run_cli(["status", "--json", OTHER, "a"]);
    assert_eq!(json(&output)["drivers"].as_array().unwrap().len(), 2);

    let unknown = format!("error: the daemon has no driver \"x\"; it has a, {OTHER}\n");
    assert_eq!(fails(&scene, &["status", "x"]), unknown);
    let output = scene.registrar.run_cli(["status", "a", "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output), unknown);
    assert!(stdout(&output).contains("registered"), "{output:?}");
    let output = scene.registrar.run_cli(["status", "--json", "x"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["drivers"], Value::Array(vec![]));
}
