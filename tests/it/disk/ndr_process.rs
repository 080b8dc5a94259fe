//! An NDR stand-in: a process that serves a plain socket at the link's place.

use std::fs;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bed::eventually;

use crate::scene::survival::SOON;

const ASKED: &str = "SURVIVAL_STAND_IN";

/// A running stand-in.
pub(crate) struct StandIn {
    child: Child,
    socket: PathBuf,
}

/// As in `bed::kubelet_process!`: this executable starts itself once more.
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
        let child = Command::new("/proc/self/exe")
            .args([
                "--exact",
                "disk::ndr_process::stand_in_process",
                "--ignored",
            ])
            .env(ASKED, socket)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let stand_in = StandIn {
            child,
            socket: socket.to_owned(),
        };
        eventually("the stand-in listens", SOON, || {
            std::os::unix::net::UnixStream::connect(socket)
        });
        stand_in
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// As by `kill -9`: the socket stays behind, stale.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// As a graceful end: the socket goes.
    pub(crate) fn stop(mut self) {
        fs::remove_file(&self.socket).unwrap();
        self.end();
    }

    fn end(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Ended already, or to be ended: both are fine with kill until it is reaped.
        self.end();
    }
}
