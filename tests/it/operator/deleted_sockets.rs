//! A deleted socket or a freed port causes no event: the resync finds it.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use bed::scene::{NAME, SOON};
use bed::{NotifySocket, Scene, eventually, stdout};
use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::http_client::wait_code;
use crate::setup;

/// A registrar that resyncs each second, and not each half minute, because it has to feed a watchdog of
/// 2 s.
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
fn a_deleted_control_socket_is_recreated() {
    let (scene, _notify) = started(|_| String::new());
    let socket = scene.node.runtime_dir().join("control.sock");
    for _ in 0..2 {
        fs::remove_file(&socket).unwrap();
        scene.phase(NAME, "waiting-for-driver");
    }
    assert!(scene.registrar.logs().contains("is recreated"));
}

#[test]
fn a_control_socket_that_cannot_be_recreated_is_reported_once() {
    let (mut scene, notify) = started(|_| String::new());
    let runtime = scene.node.runtime_dir();
    let aside = runtime.with_extension("aside");
    // Without the file in its way, the daemon would create the directory again.
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

/// Exchanges two files, so that neither is missing in between.
fn exchange(one: &Path, other: &Path) {
    let flags = RenameFlags::RENAME_EXCHANGE;
    renameat2(AT_FDCWD, one, AT_FDCWD, other, flags).unwrap();
}

#[test]
fn a_deleted_http_socket_is_recreated() {
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
