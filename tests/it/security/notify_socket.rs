//! A systemd that no longer reads its messages delays no other work.

use std::os::unix::net::UnixDatagram;

use bed::eventually;
use bed::scene::{NAME, SOON};

use crate::setup;

/// Fills the socket's queue.
fn fill(path: &std::path::Path) {
    let socket = UnixDatagram::unbound().unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.connect(path).unwrap();
    while socket.send(b"STATUS=not read").is_ok() {}
}

#[test]
fn a_systemd_that_does_not_read_delays_neither_the_kubelet_nor_ready() {
    let mut scene = setup().http().set();
    let path = scene.node.root().join("notify");
    let systemd = UnixDatagram::bind(&path).unwrap();
    fill(&path);
    scene.registrar = scene.registrar.with_env("NOTIFY_SOCKET", &path);
    scene.registrar.start();
    let _driver = scene.node.driver(NAME);
    scene.wait_answered(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    scene.phase(NAME, "registered");

    // Once systemd reads again, it gets the missed message, long before the next resync.
    systemd.set_read_timeout(Some(SOON)).unwrap();
    let mut buffer = [0; 4096];
    eventually("READY=1 comes", SOON, || {
        let length = systemd.recv(&mut buffer).unwrap();
        let message = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let is_ready = message.lines().any(|line| line == "READY=1");
        is_ready.then_some(()).ok_or(message)
    });
}
