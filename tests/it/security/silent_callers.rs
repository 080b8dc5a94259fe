//! Callers with root's uid that hold connections and ask nothing: the kubelet and the operator still
//! get answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use bed::scene::{NAME, SOON};
use bed::{Footprint, Process, eventually, flood, never};

use crate::setup;

/// The first half of an HTTP/2 preface.
const HALF_A_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n";
/// More than the limit of any socket.
const MANY: usize = 2_500;
/// KiB that the registrar may grow by for [`MANY`] connections.
const GROWTH: u64 = 64 * 1024;

#[test]
fn a_thousand_mute_clients_of_the_control_socket_do_not_keep_status_waiting() {
    let scene = setup().http().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let _held = flood(&scene.control(), 1_000, HALF_A_PREFACE);
    thread::scope(|scope| {
        let asking = scope.spawn(|| scene.registrar.status());
        eventually("status answers", SOON, || asking.is_finished());
        assert!(asking.join().unwrap().is_some());
    });
    scene.wait_answered(NAME);
}

#[test]
fn clients_that_have_asked_are_not_closed_for_mute_ones() {
    let scene = setup().http().started();
    scene.phase(NAME, "waiting-for-driver");
    let mut watch = scene.registrar.command("status");
    watch.args(["--json", "--watch"]).stdout(Stdio::piped());
    let mut watching = Process::start(&mut watch);
    let mut lines = BufReader::new(watching.stdout()).lines();
    assert!(lines.next().is_some(), "it has asked");
    let sockets = || Footprint::of(watching.pid()).sockets();
    let before = sockets();
    assert!(!before.is_empty());
    let _held = flood(&scene.control(), 500, HALF_A_PREFACE);
    let _driver = scene.node.driver(NAME);
    let told = lines.find(|line| line.as_ref().unwrap().contains("waiting-for-kubelet"));
    assert!(told.is_some(), "the watch has ended");
    // If the daemon had closed the connection, the client would have another one by now.
    assert_eq!(sockets(), before, "its connection was closed");
}

#[test]
fn mute_callers_of_the_registration_socket_do_not_keep_the_kubelet_waiting() {
    let scene = setup().http().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let before = scene.registrar.rss_kb();
    let _held = flood(&scene.node.reg_socket(NAME), MANY, HALF_A_PREFACE);
    scene.wait_answered(NAME);
    let kubelet = scene.node.kubelet();
    kubelet.wait_registered(NAME, SOON);
    assert!(
        scene.registrar.rss_kb() < before + GROWTH,
        "too much memory"
    );
}

#[test]
fn a_caller_that_sends_byte_by_byte_delays_no_other_caller() {
    let scene = setup().http().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let sockets = [scene.node.reg_socket(NAME), scene.control(), scene.http()];
    let slow = sockets.map(|socket| {
        thread::spawn(move || {
            let mut stream = UnixStream::connect(socket).unwrap();
            for byte in HALF_A_PREFACE.chunks(1) {
                // The HTTP server refuses other bytes than HTTP/1 early.
                if stream.write_all(byte).is_err() {
                    return;
                }
                thread::sleep(Duration::from_millis(60));
            }
        })
    });
    while slow.iter().any(|one| !one.is_finished()) {
        scene.wait_answered(NAME);
        assert!(scene.registrar.status().is_some());
    }
    slow.into_iter().for_each(|one| one.join().unwrap());
}

#[test]
fn mute_clients_over_tcp_do_not_keep_others_from_reading() {
    let scene = setup().http().set();
    let address = SocketAddr::from(([127, 0, 0, 1], bed::free_port()));
    let listen = format!("[http]\nlisten = \"{address}\"\n");
    scene.node.write_default_config(&[NAME], &listen);
    let mut scene = scene;
    scene.registrar.start();
    scene.phase(NAME, "waiting-for-driver");
    let connect = || TcpStream::connect(address);
    eventually("http is served", SOON, connect);
    let _held: Vec<TcpStream> = (0..300).map(|_| connect().unwrap()).collect();
    let mut stream = connect().unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let ask = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
    stream.write_all(ask).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn a_client_that_never_reads_its_answer_costs_no_memory() {
    let scene = setup().http().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    // After the preface and SETTINGS: PINGs, each of which wants an answer.
    let mut words = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    words.extend(b"\0\0\x08\x06\0\0\0\0\0nonsense".repeat(2_000));
    let before = scene.registrar.rss_kb();
    let deaf: Vec<_> = [scene.node.reg_socket(NAME), scene.control()]
        .into_iter()
        .map(|socket| {
            let words = words.clone();
            thread::spawn(move || {
                let mut stream = UnixStream::connect(socket).unwrap();
                stream
                    .set_write_timeout(Some(Duration::from_secs(2)))
                    .unwrap();
                // Ends when the socket's buffer is full, or when the daemon closes the connection.
                while stream.write_all(&words).is_ok() {}
            })
        })
        .collect();
    never("memory grows", Duration::from_secs(2), || {
        scene.registrar.rss_kb() > before + 16 * 1024
    });
    scene.wait_answered(NAME);
    deaf.into_iter().for_each(|one| one.join().unwrap());
}
