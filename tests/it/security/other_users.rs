//! Another user of the machine, and the sockets that this user may connect to.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use bed::scene::{NAME, SOON};
use bed::{Scene, eventually, is_root};

use crate::setup;

/// The socket that [`foreign_caller`] connects to, and the bytes that it sends.
const CALLED: &str = "NSDR_TEST_CALLED";
const SAID: &str = "NSDR_TEST_SAID";

/// For `setpriv`: ignores file modes, so that only the daemon's own check remains.
const PAST_MODES: [&str; 4] = [
    "--inh-caps",
    "+dac_override",
    "--ambient-caps",
    "+dac_override",
];

const GET: &str = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST /status HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
/// The beginning of an HTTP/2 connection, which wants an answer.
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

#[test]
#[ignore = "no test: those below start it as another user"]
fn foreign_caller() {
    let Some(path) = std::env::var_os(CALLED) else {
        return;
    };
    let words = std::env::var(SAID).unwrap().replace("NUL", "\0");
    let heard = UnixStream::connect(path).and_then(|mut stream| {
        stream.set_read_timeout(Some(SOON))?;
        stream.write_all(words.as_bytes())?;
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard)?;
        Ok(String::from_utf8_lossy(&heard).into_owned())
    });
    println!("heard: {heard:?}");
}

/// Runs this executable again as `nobody`, and returns the answer to these bytes.
fn as_nobody(path: &Path, words: &str, more: &[&str]) -> String {
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .args(more)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "security::other_users::foreign_caller",
            "--ignored",
            "--nocapture",
        ])
        .env(CALLED, path)
        // An environment variable cannot hold a NUL.
        .env(SAID, words.replace('\0', "NUL"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let heard = said.lines().find_map(|line| line.split_once("heard: "));
    heard.unwrap_or_else(|| panic!("{output:?}")).1.to_owned()
}

/// A published driver, in directories that other users may traverse.
fn published() -> (Scene, bed::FakeDriver) {
    let scene = setup().http().started();
    fs::set_permissions(scene.node.root(), Permissions::from_mode(0o755)).unwrap();
    let driver = scene.node.driver(NAME);
    scene.phase(NAME, "waiting-for-kubelet");
    eventually("http is served", SOON, || scene.http().exists());
    (scene, driver)
}

#[test]
fn another_user_cannot_connect_to_the_registration_or_the_control_socket() {
    if !is_root("act as another user") {
        return;
    }
    let (scene, _driver) = published();
    for path in [
        scene.node.reg_socket(NAME),
        scene.node.link(NAME),
        scene.control(),
    ] {
        let heard = as_nobody(&path, PREFACE, &[]);
        assert!(
            heard.contains("PermissionDenied"),
            "{}: {heard}",
            path.display()
        );
        // The mode of the socket itself refuses, not the mode of a directory.
        let open = path.with_file_name("open.sock");
        bed::dead_socket(&open);
        fs::set_permissions(&open, Permissions::from_mode(0o666)).unwrap();
        let heard = as_nobody(&open, PREFACE, &[]);
        assert!(heard.contains("ConnectionRefused"), "{heard}");
    }
}

#[test]
fn another_user_that_passes_the_modes_is_refused_without_an_answer() {
    if !is_root("act as another user") {
        return;
    }
    let (scene, _driver) = published();
    for path in [scene.node.reg_socket(NAME), scene.control()] {
        let heard = as_nobody(&path, PREFACE, &PAST_MODES);
        let is_closed = ["Ok(\"\")", "ConnectionReset", "BrokenPipe"];
        assert!(
            is_closed.iter().any(|end| heard.contains(end)),
            "{}: {heard}",
            path.display()
        );
    }
    eventually("the log tells of both", SOON, || {
        let logs = scene.registrar.logs();
        let told = logs
            .matches("turned away a caller that is not root")
            .count();
        (told == 2).then_some(()).ok_or(logs)
    });
    scene.wait_answered(NAME);
}

#[test]
fn another_user_may_read_over_http_and_do_nothing_else() {
    if !is_root("act as another user") {
        return;
    }
    let (scene, _driver) = published();
    let heard = as_nobody(&scene.http(), GET, &[]);
    assert!(heard.contains("HTTP/1.1 200 OK"), "{heard}");
    let heard = as_nobody(&scene.http(), POST, &[]);
    assert!(heard.contains("HTTP/1.1 405"), "{heard}");
    // A directory with a stricter mode keeps other users out.
    fs::set_permissions(scene.node.runtime_dir(), Permissions::from_mode(0o750)).unwrap();
    let heard = as_nobody(&scene.http(), GET, &[]);
    assert!(heard.contains("PermissionDenied"), "{heard}");
}
