//! A thousand connections that say nothing, on HTTP and on the control socket, do not delay the
//! answer that the kubelet waits for.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bed::scene::NAME;
use bed::wire::RegistrationCall;
use bed::{Process, Scene, flood};
use nix::sys::signal::Signal;

use crate::http_client::{PATIENCE, wait_code};
use crate::setup;

const CONNECTIONS: usize = 1000;
const QUESTIONS: usize = 300;
/// The kubelet's own. How much less it takes is measured by the benchmark.
const DEADLINE: Duration = Duration::from_secs(1);
/// A client that says nothing is borne for so long, and others would wait for that.
const BORNE: Duration = Duration::from_secs(5);

/// What the daemon says at the level "trace" when it does the work for one answer.
const BUILT: &str = "putting the status together";

#[track_caller]
fn kubelet_is_answered_in_time(scene: &Scene) {
    let call = RegistrationCall::open(&scene.node.link(NAME)).unwrap();
    let mut times: Vec<Duration> = (0..QUESTIONS)
        .map(|_| {
            let begun = Instant::now();
            call.get_info().unwrap();
            begun.elapsed()
        })
        .collect();
    times.sort_unstable();
    // A flood that is in the way moves all of them; a busy machine, a few.
    let p99 = times[QUESTIONS * 99 / 100];
    assert!(p99 <= DEADLINE, "p99 is {p99:?}");
}

#[test]
fn a_thousand_slow_http_clients_delay_neither_the_kubelet_nor_other_clients() {
    let scene = setup().http().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    wait_code(&scene.http(), "/healthz", 200);
    let _held = flood(
        &scene.http(),
        CONNECTIONS,
        b"GET /metrics HTTP/1.1\r\nHost: ",
    );
    kubelet_is_answered_in_time(&scene);
    let begun = Instant::now();
    wait_code(&scene.http(), "/healthz", 200);
    assert!(begun.elapsed() < BORNE, "{:?}", begun.elapsed());
}

#[test]
fn a_thousand_mute_control_clients_do_not_delay_the_kubelet() {
    let scene = setup().http().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let control = scene.node.runtime_dir().join("control.sock");
    let _held = flood(&control, CONNECTIONS, b"PRI * HTTP/2.0\r\n");
    kubelet_is_answered_in_time(&scene);
    assert_eq!(wait_code(&scene.http(), "/healthz", 200), "ok");
}

#[test]
fn a_control_client_that_never_asks_is_closed_and_one_that_watches_is_not() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let control = scene.node.runtime_dir().join("control.sock");
    let mut mute = UnixStream::connect(control).unwrap();
    mute.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut watch = scene.registrar.command("status");
    let mut watching = Process::start(watch.arg("--watch").stdout(Stdio::null()));
    let mut sent = Vec::new();
    // Settings come first; then nothing, until the daemon closes.
    mute.read_to_end(&mut sent).unwrap();
    assert!(watching.is_running(), "its connection was closed as well");
}

/// They have hung up before the daemon comes to them, for which it is stopped.
#[test]
fn the_status_is_not_put_together_for_clients_that_have_left() {
    const CLIENTS: usize = 40;
    let mut scene = setup().set();
    let http = format!(
        "[http]\nlisten = \"unix:{}\"\n[log]\nlevel = \"trace\"\n",
        scene.http().display()
    );
    scene.node.write_default_config(&[NAME], &http);
    scene.registrar.start();
    wait_code(&scene.http(), "/healthz", 200);
    let built = |scene: &Scene| scene.registrar.logs().matches(BUILT).count();
    let before = built(&scene);
    assert!(before > 0, "{}", scene.registrar.logs());
    scene.registrar.signal(Signal::SIGSTOP);
    for _ in 0..CLIENTS {
        let mut client = UnixStream::connect(scene.http()).unwrap();
        client
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
    }
    scene.registrar.signal(Signal::SIGCONT);
    wait_code(&scene.http(), "/healthz", 200);
    // One that asks after them may be answered before them.
    let more = built(&scene) - before;
    assert!(more < CLIENTS / 2, "{more}: {}", scene.registrar.logs());
}
