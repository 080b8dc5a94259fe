//! A thousand silent connections, on HTTP and on the control socket, do not delay the kubelet's calls.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bed::scene::NAME;
use bed::wire::RegistrationCall;
use bed::{Footprint, Process, Scene, flood, never};
use nix::sys::signal::Signal;

use crate::http_client::{PATIENCE, wait_code};
use crate::setup;

const CONNECTIONS: usize = 1000;
const QUESTIONS: usize = 300;
/// The kubelet's own deadline. The benchmark measures the real time.
const DEADLINE: Duration = Duration::from_secs(1);
/// The daemon closes a silent client after this time; other clients must not wait for that.
const BORNE: Duration = Duration::from_secs(5);

/// The log line at the level "trace" for each status that the daemon builds.
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
    // A flood that delays calls delays all of them; a busy machine delays a few.
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
fn a_silent_control_client_is_closed_and_a_watching_client_is_not() {
    let scene = setup().started();
    scene.phase(NAME, "waiting-for-driver");
    let control = scene.node.runtime_dir().join("control.sock");
    let mut mute = UnixStream::connect(control).unwrap();
    mute.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut watch = scene.registrar.command("status");
    let mut watching = Process::start(watch.arg("--watch").stdout(Stdio::piped()));
    let mut titles = [0; "DRIVER".len()];
    let mut shown = watching.stdout();
    shown.read_exact(&mut titles).unwrap();
    let sockets = || Footprint::of(watching.pid()).sockets();
    let before = sockets();
    assert!(!before.is_empty());
    let mut sent = Vec::new();
    // Settings come first; then nothing, until the daemon closes.
    mute.read_to_end(&mut sent).unwrap();
    // It would connect again at once.
    never(
        "its connection is closed as well",
        Duration::from_millis(500),
        || sockets() != before,
    );
}

/// The clients have closed their connections before the daemon serves them: SIGSTOP holds it up.
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
    // The daemon may answer a later client first.
    let more = built(&scene) - before;
    assert!(more < CLIENTS / 2, "{more}: {}", scene.registrar.logs());
}
