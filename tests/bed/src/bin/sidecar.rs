//! The stand-in for node-driver-registrar as a process, with its flags, until it is killed. The
//! driver's name is that of the directory of its socket.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use bed::Sidecar;

fn main() {
    let csi_socket = flag("--csi-address=");
    let endpoint = flag("--kubelet-registration-path=");
    let registry_dir = flag("--plugin-registration-path=");
    let directory = csi_socket
        .parent()
        .and_then(|directory| directory.file_name());
    let name = directory.unwrap().to_str().unwrap().to_owned();
    // The shortest pause of gRPC's back-off, with which node-driver-registrar waits.
    while UnixStream::connect(&csi_socket).is_err() {
        std::thread::sleep(Duration::from_millis(100));
    }
    let socket = registry_dir.join(format!("{name}-reg.sock"));
    let _sidecar = Sidecar::start(socket, &name, &endpoint);
    loop {
        std::thread::park();
    }
}

fn flag(name: &str) -> PathBuf {
    let mut values = std::env::args().filter_map(|argument| {
        let value = argument.strip_prefix(name)?;
        Some(PathBuf::from(value))
    });
    values.next().unwrap_or_else(|| panic!("{name} is missing"))
}
