//! Constant activity: drivers stop and start, links are deleted, and clients ask for the status.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use bed::{Dice, Release};
use nix::sys::signal::Signal;

use crate::scene::{DRIVERS, SoakScene, name};

/// Between two events, so that the test does not keep a core busy.
const PAUSE: Duration = Duration::from_millis(40);
const PATIENCE: Duration = Duration::from_secs(20);

/// One event, and a pause.
pub(crate) fn churn(scene: &mut SoakScene, dice: &mut Dice) {
    let which = usize::try_from(dice.below(DRIVERS as u64)).unwrap();
    match dice.below(200) {
        0..100 => {
            let behaviour = scene.driver[which].behaviour();
            scene.driver[which].restart(behaviour);
        }
        100..115 => remove(&scene.node.link(&name(which))),
        115..130 => remove(&scene.node.reg_socket(&name(which))),
        130..150 => scrape(&scene.http()),
        150..160 => {
            let status = scene.registrar.run_cli(["status"]);
            assert!(!status.stdout.is_empty(), "{status:?}");
        }
        160..165 => {
            let done = scene.registrar.run_cli(["reannounce", &name(which)]);
            // A link that was removed too often comes back only after a pause.
            let said = String::from_utf8_lossy(&done.stderr);
            let refused = said.contains("has no link to announce again");
            assert!(done.status.success() || refused, "{done:?}");
        }
        165..168 => scene.registrar.signal(Signal::SIGHUP),
        168..170 => {
            let release = dice.pick(&Release::ALL);
            let settings = scene.node.eager_kubelet_settings(release);
            scene.kubelet.restart_as(settings);
        }
        // A client that connects and sends nothing.
        170..180 => drop(UnixStream::connect(scene.node.reg_socket(&name(which)))),
        180..190 => drop(UnixStream::connect(scene.control())),
        _ => {}
    }
    thread::sleep(PAUSE);
}

fn remove(path: &std::path::Path) {
    match fs::remove_file(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => panic!("remove {}: {error}", path.display()),
    }
}

/// As Prometheus does.
fn scrape(socket: &std::path::Path) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let rows = answer.matches("nsdr_driver_up{").count();
    assert_eq!(rows, DRIVERS);
}
