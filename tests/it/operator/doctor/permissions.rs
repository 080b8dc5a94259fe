//! Nodes on which permissions are the cause: modes, mounts, the sandbox.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};

use bed::scene::NAME;
use bed::{Process, Scene, has_program};
use nix::unistd::geteuid;

use super::{doctor, finds, first_is, proc};
use crate::setup;

/// Root may do everything, so these tests run the doctor as another user.
fn doctor_as_nobody(scene: &Scene) -> Option<Output> {
    let proc = proc(scene).display().to_string();
    if !geteuid().is_root() {
        return Some(doctor(scene));
    }
    if !has_program("setpriv") {
        return None;
    }
    let line = scene.registrar.command_line("doctor");
    let program = scene.node.root().join("registrar");
    bed::script::copy(line[0].as_ref(), &program);
    for path in [scene.node.root(), &scene.node.root().join("run")] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program)
        .args(&line[1..])
        .args(["--json", "--proc", &proc])
        .output();
    Some(output.unwrap())
}

#[test]
fn a_directory_that_the_sandbox_hides_from_the_daemon() {
    let scene = setup().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let process = proc(&scene).join(scene.registrar.pid().to_string());
    fs::create_dir(&process).unwrap();
    let sandbox = scene.node.root().join("sandbox");
    fs::create_dir(&sandbox).unwrap();
    symlink(&sandbox, process.join("root")).unwrap();
    finds(
        &scene,
        "sandbox",
        "is not the same directory for the daemon",
    );
}

#[test]
fn a_directory_that_is_read_only_for_the_daemon_alone() {
    let scene = setup().set();
    let _driver = scene.node.driver(NAME);
    fs::create_dir_all(scene.node.registry_dir()).unwrap();
    let run = scene.registrar.command_line("run").join(" ");
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && exec {run}",
        scene.node.registry_dir().display(),
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let mut daemon = Process::start(unshare.stderr(std::process::Stdio::null()));
    let control = scene.node.runtime_dir().join("control.sock");
    let up = (0..400).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(10));
        control.exists() || !daemon.is_running()
    });
    assert!(up, "neither up nor ended");
    if daemon.is_running() {
        scene.phase(NAME, "waiting-for-kubelet");
        let process = proc(&scene).join(daemon.pid().to_string());
        fs::create_dir(&process).unwrap();
        let root = format!("/proc/{}/root", daemon.pid());
        symlink(root, process.join("root")).unwrap();
        finds(&scene, "sandbox", "is read-only for the daemon");
    } else {
        bed::skipped("mounts");
    }
}

#[test]
fn a_directory_that_may_not_be_written() {
    let scene = setup().set();
    let _driver = scene.node.driver(NAME);
    fs::create_dir_all(scene.node.registry_dir()).unwrap();
    fs::set_permissions(scene.node.registry_dir(), fs::Permissions::from_mode(0o555)).unwrap();
    if let Some(output) = doctor_as_nobody(&scene) {
        first_is(&output, "registry_dir", "may not write to");
    }
}

#[test]
fn a_socket_that_may_not_be_connected_to() {
    let scene = setup().set();
    let driver = scene.node.driver(NAME);
    for directory in [
        scene.node.root().join("vdata/storage"),
        scene.node.plugins_registry(),
    ] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    fs::set_permissions(driver.path(), fs::Permissions::from_mode(0o000)).unwrap();
    if let Some(output) = doctor_as_nobody(&scene) {
        first_is(
            &output,
            "csi.sock permission",
            "no permission to connect to",
        );
    }
}

#[test]
fn a_file_system_that_is_read_only() {
    let scene = setup().set();
    let _driver = scene.node.driver(NAME);
    fs::create_dir_all(scene.node.registry_dir()).unwrap();
    let line = scene.registrar.command_line("doctor").join(" ");
    let script = format!(
        "mount --bind {0} {0} && mount -o remount,bind,ro {0} && {line} --json --proc {1}",
        scene.node.registry_dir().display(),
        proc(&scene).display(),
    );
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &script])
        .output()
        .unwrap();
    if output.stdout.is_empty() {
        bed::skipped(&format!("mounts: {output:?}"));
        return;
    }
    first_is(&output, "registry_dir", "mounted read-only");
}
