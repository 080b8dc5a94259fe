//! A stand-in for node-driver-registrar: a process that listens on a plain socket at the link's path.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bed::scene::SOON;
use bed::{Process, eventually};

const ASKED: &str = "SURVIVAL_STAND_IN";

/// A running stand-in.
pub(crate) struct StandIn {
    process: Process,
    socket: PathBuf,
}

/// As in `bed::kubelet_process!`: this executable starts itself again.
#[test]
#[ignore = "no test: StandIn starts it"]
fn stand_in_process() {
    let Some(socket) = std::env::var_os(ASKED) else {
        return;
    };
    let listener = UnixListener::bind(socket).unwrap();
    // Connections stay open, as a gRPC server keeps them.
    let mut held = Vec::new();
    loop {
        held.push(listener.accept().unwrap());
    }
}

impl StandIn {
    pub(crate) fn start(socket: &Path) -> StandIn {
        let mut command = Command::new("/proc/self/exe");
        command
            .args([
                "--exact",
                "disk::ndr_process::stand_in_process",
                "--ignored",
            ])
            .env(ASKED, socket)
            .stdout(Stdio::null());
        let stand_in = StandIn {
            process: Process::start(&mut command),
            socket: socket.to_owned(),
        };
        eventually("the stand-in listens", SOON, || {
            std::os::unix::net::UnixStream::connect(socket)
        });
        stand_in
    }

    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// As by `kill -9`: the socket stays behind, stale.
    pub(crate) fn kill(self) {}

    /// A graceful end removes the socket.
    pub(crate) fn stop(self) {
        fs::remove_file(&self.socket).unwrap();
    }
}
