//! The socket that shows that a kubelet has started.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use tokio::net::UnixListener;

/// Listens at `path`.
///
/// As the kubelet does: it unlinks the old file, binds the new socket under a temporary name, and
/// renames it. The file stays after the listener ends, as after a kill.
pub(super) fn listen(path: &Path) -> UnixListener {
    let dir = path.parent().unwrap();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(dir)
        .unwrap();
    let temporary = dir.join("tmp.sock");
    for leftover in [path, &temporary] {
        match fs::remove_file(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                panic!("remove {}: {error}", leftover.display())
            }
            _ => {}
        }
    }
    let listener = UnixListener::bind(&temporary).unwrap();
    fs::rename(&temporary, path).unwrap();
    listener
}

/// Clients only connect; the loop accepts connections so that the listener's queue does not fill up.
pub(super) async fn accept_all(listener: Option<UnixListener>) {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        drop(listener.accept().await.unwrap());
    }
}
