//! A journald that reads no messages. The test binds its own socket to journald's path, which needs
//! root.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use bed::scene::SOON;
use bed::{Registrar, is_root};

use crate::{PROGRAM, setup};

/// Each driver logs at the start: more lines than the queue holds.
const DRIVERS: usize = 1500;

/// journald, played by the test.
struct Journal {
    socket: UnixDatagram,
    lines: Vec<String>,
}

impl Journal {
    fn bind(directory: &Path) -> Journal {
        fs::create_dir(directory).unwrap();
        let socket = UnixDatagram::bind(directory.join("socket")).unwrap();
        let blink = Duration::from_millis(50);
        socket.set_read_timeout(Some(blink)).unwrap();
        Journal {
            socket,
            lines: Vec::new(),
        }
    }

    /// Reads lines until one has these words.
    #[track_caller]
    fn read_until(&mut self, words: &str) {
        let mut datagram = vec![0; 1 << 16];
        let deadline = Instant::now() + SOON;
        while !self.lines.last().is_some_and(|line| line.contains(words)) {
            let last = self.lines.last();
            assert!(
                Instant::now() < deadline,
                "no {words:?}; the last: {last:?}"
            );
            if let Ok(length) = self.socket.recv(&mut datagram) {
                let line = String::from_utf8_lossy(&datagram[..length]);
                self.lines.push(line.into_owned());
            }
        }
    }
}

#[test]
fn a_blocked_journal_delays_nothing_and_gets_the_number_of_lost_lines_once() {
    if !is_root("bind a directory over the journal's") {
        return;
    }
    let ids: Vec<String> = (0..DRIVERS).map(|n| format!("d{n}.csi.test")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let scene = setup()
        .drivers(&ids)
        .more("[log]\ntarget = \"journald\"\n")
        .set();
    let shown = scene.node.root().join("journal");
    let mut journal = Journal::bind(&shown);
    let script = format!(
        "exec unshare -m sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/journal && mount --bind {} /run/systemd/journal && exec \"$@\"' sh \"$@\"",
        shown.display()
    );
    let mut registrar = Registrar::wrapped(PROGRAM, &scene.node, &script);
    registrar.start();
    let _driver = scene.node.driver(ids[0]);
    registrar.wait_phase(ids[0], "waiting-for-kubelet", SOON);

    journal.read_until("log lines were dropped");
    assert!(registrar.run_cli(["reload"]).status.success());
    journal.read_until("the configuration was read again");
    let lines = &journal.lines;
    assert!(lines.iter().any(|line| line.contains(" starts")));
    let told = lines
        .iter()
        .filter(|line| line.contains("log lines were dropped"));
    assert_eq!(told.count(), 1);
}
