//! HTTP: each path, on TCP and Unix sockets, and the daemon when it cannot listen.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

use bed::driver::Answer;
use bed::scene::{NAME, OTHER, SOON};
use bed::{Behaviour, Status, eventually, has_program, stdout};
use tonic::Code;

use crate::http_client::{PATIENCE, ask, get, read, wait_code};
use crate::setup;

#[test]
fn ready_follows_the_drivers_and_names_the_missing_ones() {
    let scene = setup().http().started();
    let why = wait_code(&scene.http(), "/readyz", 503);
    assert!(
        why.starts_with(&format!("{NAME}: waiting-for-driver: ")),
        "{why}"
    );
    assert_eq!(wait_code(&scene.http(), "/healthz", 200), "ok");
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    assert_eq!(wait_code(&scene.http(), "/readyz", 200), "ok");
    assert_eq!(wait_code(&scene.http(), "/healthz", 200), "ok");
}

#[test]
fn a_driver_that_is_registered_and_stopped_is_not_ready() {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    assert_eq!(wait_code(&scene.http(), "/readyz", 200), "ok");
    assert!(scene.phase(NAME, "registered").answering);
    drop(driver);
    let why = wait_code(&scene.http(), "/readyz", 503);
    assert!(why.contains("driver not responding"), "{why}");
    assert!(!scene.phase(NAME, "registered").answering);
    let _driver = scene.node.driver(NAME);
    assert_eq!(wait_code(&scene.http(), "/readyz", 200), "ok");
}

#[test]
fn ready_counts_conflicts_and_does_not_count_drivers_without_a_node_service() {
    let scene = setup().drivers(&[NAME, OTHER]).http().started();
    let behaviour = Behaviour {
        node_get_info: Answer::Fails(Code::Unimplemented),
        ..Behaviour::named(OTHER)
    };
    let _controller = scene.node.behaving(OTHER, behaviour);
    fs::create_dir(scene.node.link(NAME)).unwrap();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "conflict");
    let why = wait_code(&scene.http(), "/readyz", 503);
    assert!(why.starts_with(&format!("{NAME}: conflict: ")), "{why}");
    assert_eq!(why.lines().count(), 1, "{why}");
    let _kubelet = scene.node.kubelet();
    fs::remove_dir(scene.node.link(NAME)).unwrap();
    assert_eq!(wait_code(&scene.http(), "/readyz", 200), "ok");
}

/// The driver was started as a controller by mistake: its volumes on this node cannot be used.
#[test]
fn a_registered_driver_that_lost_its_node_service_is_not_ready() {
    let scene = setup().http().started();
    let _kubelet = scene.node.kubelet();
    let driver = scene.node.driver(NAME);
    assert_eq!(wait_code(&scene.http(), "/readyz", 200), "ok");
    drop(driver);
    let behaviour = Behaviour {
        node_get_info: Answer::Fails(Code::Unimplemented),
        ..Behaviour::named(NAME)
    };
    let _controller = scene.node.behaving(NAME, behaviour);
    scene.reason(NAME, "registered", "no Node service");
    wait_code(&scene.http(), "/readyz", 503);
    assert_eq!(scene.registrar.run_cli(["status"]).status.code(), Some(1));
}

#[test]
fn each_driver_has_a_page_for_its_readiness_and_an_unknown_one_has_none() {
    let scene = setup().drivers(&[NAME, OTHER]).http().started();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    let page = |id: &str| format!("/readyz/{id}");
    assert_eq!(wait_code(&scene.http(), &page(NAME), 200), "ok");
    let why = wait_code(&scene.http(), &page(OTHER), 503);
    assert!(
        why.starts_with(&format!("{OTHER}: waiting-for-driver: ")),
        "{why}"
    );
    for unknown in ["", "unknown", "%"] {
        assert_eq!(get(&scene.http(), &page(unknown)).code, 404);
    }
}

#[test]
fn without_any_driver_nothing_is_ready() {
    let scene = setup().drivers(&[]).http().started();
    let why = wait_code(&scene.http(), "/readyz", 503);
    assert_eq!(why, "no drivers are configured or discovered\n");
    assert_eq!(wait_code(&scene.http(), "/healthz", 200), "ok");
}

#[test]
fn status_is_the_json_of_the_command() {
    let scene = setup().http().started();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    let answer = get(&scene.http(), "/status");
    assert_eq!(answer.code, 200);
    assert!(
        answer.head.contains("content-type: application/json"),
        "{answer:?}"
    );
    let status = Status::parse(answer.body.as_bytes());
    assert_eq!(Some(status), scene.registrar.status());
}

#[test]
fn the_landing_page_shows_the_drivers_without_any_script() {
    let scene = setup().http().started();
    let behaviour = Behaviour::named("<script>alert(1)</script>");
    let _driver = scene.node.behaving(NAME, behaviour);
    scene
        .registrar
        .wait_driver("it was asked", NAME, SOON, |driver| {
            driver.last_error.is_some()
        });
    let page = get(&scene.http(), "/");
    assert_eq!(page.code, 200);
    assert!(page.head.contains("content-type: text/html"), "{page:?}");
    assert!(
        page.head
            .contains("content-security-policy: default-src 'none'")
    );
    assert!(page.body.contains(NAME) && page.body.contains("waiting-for-driver"));
    assert!(page.body.contains("&lt;script&gt;") && !page.body.contains("<script"));
    assert!(page.body.contains("color-scheme: light dark"));
}

#[test]
fn only_reading_is_answered_and_only_on_known_paths() {
    let scene = setup().http().started();
    let http = scene.http();
    assert_eq!(get(&http, "/../etc/passwd").code, 404);
    assert_eq!(get(&http, "/healthz?verbose").code, 200);
    let post = ask(
        &http,
        "POST /status HTTP/1.1\r\nHost: l\r\nContent-Length: 2\r\n\r\nhi",
    );
    assert_eq!(post.code, 405);
    assert!(post.head.contains("allow: get, head"), "{post:?}");
    let head = ask(&http, "HEAD /healthz HTTP/1.1\r\nHost: l\r\n\r\n");
    assert_eq!((head.code, head.body.as_str()), (200, ""));
}

#[test]
fn every_user_may_read_the_socket_and_it_is_removed_with_the_daemon() {
    let mut scene = setup().http().started();
    wait_code(&scene.http(), "/healthz", 200);
    let mode = fs::metadata(scene.http()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
    scene.registrar.stop();
    assert!(!scene.http().exists());
}

#[test]
fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let mut scene = setup().http().started();
    wait_code(&scene.http(), "/healthz", 200);
    scene.registrar.kill9();
    assert!(scene.http().exists());
    scene.registrar.start();
    wait_code(&scene.http(), "/healthz", 200);
    scene.registrar.stop();

    let _foreign = std::os::unix::net::UnixListener::bind(scene.http()).unwrap();
    scene.registrar.start();
    let note = eventually("the status says so", SOON, || {
        let said = stdout(&scene.registrar.run_cli(["status"]));
        said.contains("http is not served").then_some(said)
    });
    assert!(
        note.contains("serves") && note.contains("http.sock"),
        "{note}"
    );
}

#[test]
fn curl_reads_every_path_on_the_unix_socket() {
    if !has_program("curl") {
        return;
    }
    let scene = setup().http().started();
    wait_code(&scene.http(), "/healthz", 200);
    for path in ["", "healthz", "status", "metrics"] {
        let output = Command::new("curl")
            .args(["--fail", "--silent", "--show-error", "--unix-socket"])
            .arg(scene.http())
            .arg(format!("http://localhost/{path}"))
            .output()
            .unwrap();
        assert!(
            output.status.success() && !output.stdout.is_empty(),
            "{output:?}"
        );
    }
}

#[test]
fn reload_moves_it_to_another_address_and_turns_it_off() {
    let scene = setup().http().started();
    wait_code(&scene.http(), "/healthz", 200);
    let port = bed::free_port();
    scene.listen(&[NAME], &format!("127.0.0.1:{port}"));
    assert!(scene.registrar.run_cli(["reload"]).status.success());
    let answer = eventually("it listens on the port", SOON, || {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n")?;
        read(&mut stream)
    });
    assert_eq!((answer.code, answer.body.as_str()), (200, "ok"));
    eventually("the old socket goes", SOON, || !scene.http().exists());
    scene.listen(&[NAME], "");
    assert!(scene.registrar.run_cli(["reload"]).status.success());
    eventually("the port is closed", SOON, || {
        TcpStream::connect(("127.0.0.1", port)).is_err()
    });
}

#[test]
fn a_port_that_is_taken_keeps_no_driver_from_the_kubelet() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut scene = setup().set();
    scene.listen(&[NAME], &address);
    scene.registrar.start();
    let _kubelet = scene.node.kubelet();
    let _driver = scene.node.driver(NAME);
    scene.phase(NAME, "registered");
    let said = stdout(&scene.registrar.run_cli(["status"]));
    assert!(
        said.contains("http is not served") && said.contains(&address),
        "{said}"
    );
    assert!(scene.registrar.logs().contains("http is not served"));
}

#[test]
fn a_head_that_never_ends_or_is_too_long_is_cut_off() {
    let scene = setup().http().started();
    wait_code(&scene.http(), "/healthz", 200);
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n", "x".repeat(30_000));
    let mut stream = UnixStream::connect(scene.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The daemon may close the connection before the client has written everything.
    match stream.write_all(long.as_bytes()) {
        Ok(()) | Err(_) => {}
    }
    is_cut_off(stream, &[400, 431]);

    let many = "A: b\r\n".repeat(100);
    let answer = ask(&scene.http(), &format!("GET / HTTP/1.1\r\n{many}\r\n"));
    assert!(matches!(answer.code, 400 | 431), "{answer:?}");

    let mut slow = UnixStream::connect(scene.http()).unwrap();
    slow.set_read_timeout(Some(PATIENCE)).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nHo").unwrap();
    is_cut_off(slow, &[408]);
}

/// The daemon answers with one of these codes, or closes the connection. A timeout is a failure.
#[track_caller]
fn is_cut_off(mut stream: UnixStream, codes: &[u16]) {
    match read(&mut stream) {
        Ok(answer) => assert!(codes.contains(&answer.code), "{answer:?}"),
        Err(error) => assert!(
            matches!(
                error.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            ),
            "{error}"
        ),
    }
}
