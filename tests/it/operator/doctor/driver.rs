//! Nodes on which the driver or its directory is the cause. `operator/driver_faults.rs` has the faults of
//! a driver that runs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use bed::driver::Call;
use bed::scene::{NAME, OTHER, SOON};
use bed::{
    Behaviour, FakeDriver, HangingMount, Process, Scene, dead_socket, eventually, has_program,
    is_root,
};

use super::{doctor, findings, finds, only};
use crate::setup;

const QUICK: &str = "[defaults]\nrequest_timeout = \"300ms\"\nnode_info_timeout = \"300ms\"\nretry_max = \"50ms\"\n";

#[test]
fn an_absent_driver() {
    let mut scene = setup().set();
    finds(&scene, "csi.sock", "waiting for");
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    finds(&scene, "csi.sock", &format!("{NAME} is missing"));
}

#[test]
fn a_file_in_the_place_of_the_drivers_socket() {
    let scene = setup().set();
    let socket = scene.node.csi_socket(NAME);
    fs::create_dir_all(socket.parent().unwrap()).unwrap();
    fs::write(&socket, "").unwrap();
    finds(&scene, "csi.sock", "is not a socket");
}

#[test]
fn a_file_system_that_does_not_answer() {
    let mut scene = setup().more(QUICK).set();
    let Some(mount) = HangingMount::over(scene.node.plugins_dir().join(NAME)) else {
        return;
    };
    let _driver = FakeDriver::start(scene.node.csi_socket(NAME), Behaviour::named(NAME));
    let _hang = mount.hang();
    finds(&scene, "csi.sock file system", "does not answer");
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    finds(&scene, "csi.sock file system", "does not answer");
}

#[test]
fn a_wrong_name() {
    let pin = format!("[drivers.{NAME:?}]\nname = \"pinned.name\"\n");
    let scene = setup().drivers(&[]).more(&pin).started();
    let _driver = scene.node.driver(NAME);
    finds(&scene, "name", "the configuration pins \"pinned.name\"");
}

#[test]
fn node_get_info_that_takes_long_is_a_warning_and_is_said_soon() {
    let mut scene = setup()
        .more("[defaults]\nrequest_timeout = \"300ms\"\n")
        .set();
    let slow = Behaviour::named(NAME).hanging_on(Call::NodeGetInfo);
    let _driver = scene.node.behaving(NAME, slow);
    scene.registrar.start();
    scene.registrar.wait_reason(
        NAME,
        "waiting-for-driver",
        "NodeGetInfo has taken longer than 300ms",
        SOON,
    );
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let findings = findings(&output);
    let about = findings
        .iter()
        .find(|finding| finding["check"] == "NodeGetInfo")
        .unwrap();
    assert_eq!(about["level"], "warning");
    let found = about["found"].as_str().unwrap();
    assert!(found.contains("has taken longer than 300ms"), "{found}");
    assert!(found.contains("up to 2m"), "{found}");
}

#[test]
fn node_get_info_that_the_daemon_has_given_up_is_a_fault() {
    let more = "[defaults]\nrequest_timeout = \"300ms\"\nnode_info_timeout = \"900ms\"\n";
    let mut scene = setup().more(more).set();
    let slow = Behaviour::named(NAME).hanging_on(Call::NodeGetInfo);
    let _driver = scene.node.behaving(NAME, slow);
    scene.registrar.start();
    let given_up = "NodeGetInfo took longer than 900ms";
    scene
        .registrar
        .wait_reason(NAME, "waiting-for-driver", given_up, SOON);
    finds(&scene, "NodeGetInfo", given_up);
}

#[test]
fn a_driver_that_has_restarted_is_no_warning_any_more() {
    let scene = setup().started();
    let _kubelet = scene.node.kubelet();
    let mut driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    driver.kill();
    let gone = scene
        .registrar
        .wait_driver("it is gone", NAME, SOON, |driver| {
            driver.last_error.is_some()
        });
    assert_eq!(gone.phase, "registered");
    driver.restart(Behaviour::named(NAME));
    scene
        .registrar
        .wait_driver("the error is over", NAME, SOON, |driver| {
            driver.last_error.is_none()
        });
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let about: Vec<_> = findings(&output)
        .into_iter()
        .filter(|finding| finding["driver"] == NAME)
        .collect();
    assert!(about.is_empty(), "{about:?}");
}

#[test]
fn a_plugin_directory_that_discovery_refuses() {
    let mut scene = setup().discovery().set();
    let _driver = scene.node.driver(NAME);
    let directory = scene.node.csi_socket(NAME).parent().unwrap().to_owned();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    finds(&scene, "plugin directory", "other than root can write");
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    finds(&scene, "plugin directory", "other than root can write");
}

/// The socket that [`foreign_listener`] listens on.
const SOCKET: &str = "NSDR_TEST_SOCKET";
/// Another user.
const USER: u32 = 65534;

#[test]
#[ignore = "no test: the next one starts it as another user"]
fn foreign_listener() {
    let Some(path) = std::env::var_os(SOCKET) else {
        return;
    };
    let _listener = UnixListener::bind(path).unwrap();
    loop {
        std::thread::park();
    }
}

/// `chown root` would keep the driver from creating its socket at its next start.
#[test]
fn a_driver_that_runs_as_another_user_is_declared_and_gets_the_drop_in() {
    if !is_root("run as another user") || !has_program("setpriv") {
        return;
    }
    let scene = setup().discovery().set();
    fs::set_permissions(scene.node.root(), fs::Permissions::from_mode(0o755)).unwrap();
    let socket = scene.node.csi_socket(NAME);
    let directory = socket.parent().unwrap();
    fs::create_dir(directory).unwrap();
    chown(directory, Some(USER), None).unwrap();
    dead_socket(&socket);
    let not_served = fix_of(&scene, "fault");
    fs::remove_file(&socket).unwrap();
    let drop_in =
        "/usr/share/doc/node-storage-driver-registrar/examples/driver-of-another-user.conf";
    let command = format!("otherwise: chown -h root: {}", directory.display());
    let table = format!("declare it in [drivers.\"{NAME}\"] with name = \"NAME\"");
    let trust = format!("only if you trust uid {USER}, ");
    for words in [&trust, &table, drop_in, &command] {
        assert!(not_served.contains(words), "{not_served}");
    }
    let mut listener = Command::new("setpriv");
    listener
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "operator::doctor::driver::foreign_listener"])
        .args(["--ignored", "--nocapture"])
        .env(SOCKET, &socket)
        .stdout(Stdio::null());
    let listener = Process::start(&mut listener);
    eventually("it listens", SOON, || socket.exists());
    let fix = fix_of(&scene, "fault");
    let pid = format!("as which pid {} (", listener.pid());
    let installed = "/etc/systemd/system/node-storage-driver-registrar.service.d/";
    for words in [&pid, &trust, &table, drop_in, installed] {
        assert!(fix.contains(words), "{fix}");
    }
    assert!(!fix.contains("chown"), "{fix}");
    scene.node.write_default_config(&[NAME], "");
    let declared = fix_of(&scene, "warning");
    let words = format!("nothing, if you trust uid {USER}");
    assert!(declared.starts_with(&words), "{declared}");
    let pin = "set name in its table";
    assert!(declared.contains(pin), "{declared}");
    let pinned = format!("[drivers.\"{NAME}\"]\nname = \"{NAME}\"\n");
    scene.node.write_default_config(&[], &pinned);
    let declared = fix_of(&scene, "warning");
    assert!(!declared.contains(pin), "{declared}");
}

/// The fix of the finding about the driver's directory, which has this level.
#[track_caller]
fn fix_of(scene: &Scene, level: &str) -> String {
    let findings = findings(&doctor(scene));
    let finding = only(&findings, "plugin directory");
    assert_eq!(finding["level"], level, "{finding}");
    finding["fix"].as_str().unwrap().to_owned()
}

#[test]
fn a_plugins_dir_that_others_may_write_to() {
    let mut scene = setup().discovery().drivers(&[OTHER]).set();
    let _drivers = [scene.node.driver(NAME), scene.node.driver(OTHER)];
    let plugins = scene.node.plugins_dir();
    fs::set_permissions(&plugins, fs::Permissions::from_mode(0o777)).unwrap();
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    scene.phase(OTHER, "waiting-for-kubelet");
    let words = format!("users other than root can write to {}", plugins.display());
    let fix = format!("chmod go-w {}", plugins.display());
    let findings = findings(&doctor(&scene));
    let about = |driver: Option<&str>| {
        let found = findings.iter().find(|finding| {
            finding["check"] == "plugin directory" && finding["driver"].as_str() == driver
        });
        let found = found.unwrap_or_else(|| panic!("{driver:?}: {findings:#?}"));
        assert!(
            found["found"].as_str().unwrap().contains(&words),
            "{found:#?}"
        );
        assert!(found["fix"].as_str().unwrap().starts_with(&fix));
        found["level"].as_str().unwrap().to_owned()
    };
    assert_eq!(about(Some(NAME)), "fault");
    // The operator has a table for this driver.
    assert_eq!(about(Some(OTHER)), "warning");
    assert_eq!(about(None), "warning");
}

#[test]
fn no_driver_at_all_and_no_daemon() {
    let mut scene = setup().discovery().set();
    finds(&scene, "daemon", "is not running");
    scene.registrar.start();
    eventually("the daemon answers", SOON, || {
        scene.registrar.status().is_some()
    });
    let output = doctor(&scene);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(findings(&output)[0]["check"], "csi.sock");
}
