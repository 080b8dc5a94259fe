//! Who deletes a socket, or frees a port, tells nobody: the slow look at everything sees it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use bed::scene::{NAME, SOON};
use bed::{NotifySocket, Scene, eventually, stdout};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::http_client::wait_code;
use crate::setup;

/// A registrar that looks at everything each second, and not each half minute: it has to give signs
/// of life as often.
fn started(listen: impl Fn(&Scene) -> String) -> (Scene, NotifySocket) {
    let mut scene = setup().set();
    let notify = NotifySocket::bind(scene.node.root().join("notify"));
    scene.registrar = scene
        .registrar
        .with_env("NOTIFY_SOCKET", notify.path())
        .with_env("WATCHDOG_USEC", "2000000");
    scene.listen(&[NAME], &listen(&scene));
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    (scene, notify)
}

#[test]
fn a_control_socket_that_was_deleted_is_made_anew() {
    let (scene, _notify) = started(|_| String::new());
    let socket = scene.node.runtime_dir().join("control.sock");
    for _ in 0..2 {
        fs::remove_file(&socket).unwrap();
        scene.phase(NAME, "waiting-for-driver");
    }
    assert!(scene.registrar.logs().contains("is recreated"));
}

#[test]
fn a_control_socket_that_cannot_be_made_anew_is_told_of_once() {
    let (mut scene, notify) = started(|_| String::new());
    let runtime = scene.node.runtime_dir();
    let aside = runtime.with_extension("aside");
    // Without the file in its way the directory would be made again.
    fs::write(&aside, "in the way").unwrap();
    exchange(&runtime, &aside);
    let signs = notify.count("WATCHDOG=1");
    eventually("it looked", SOON, || notify.count("WATCHDOG=1") > signs + 2);
    let told = |logs: String| logs.matches("do not reach the daemon").count();
    assert_eq!(told(scene.registrar.logs()), 1);
    assert!(scene.registrar.is_running());
    exchange(&runtime, &aside);
    scene.phase(NAME, "waiting-for-driver");
    eventually("it is over", SOON, || {
        let status = notify.status().unwrap();
        (!status.contains("do not reach"))
            .then_some(())
            .ok_or(status)
    });
}

/// Gives each of two files the other's name, so that neither is missing in between.
fn exchange(one: &Path, other: &Path) {
    let flags = RenameFlags::RENAME_EXCHANGE;
    renameat2(AT_FDCWD, one, AT_FDCWD, other, flags).unwrap();
}

#[test]
fn an_http_socket_that_was_deleted_is_made_anew() {
    let (scene, _notify) = started(|scene| format!("unix:{}", scene.http().display()));
    wait_code(&scene.http(), "/healthz", 200);
    fs::remove_file(scene.http()).unwrap();
    wait_code(&scene.http(), "/healthz", 200);
}

#[test]
fn a_port_that_was_taken_is_listened_on_when_it_is_free() {
    let taken = TcpListener::bind(("127.0.0.1", bed::free_port())).unwrap();
    let address = taken.local_addr().unwrap();
    let (scene, notify) = started(|_| address.to_string());
    notify.wait_for_status("http is not served", SOON);
    drop(taken);
    eventually("it is served", SOON, || TcpStream::connect(address));
    let served = || !stdout(&scene.registrar.run_cli(["status"])).contains("http is not served");
    eventually("nothing is wrong with it any more", SOON, served);
}
