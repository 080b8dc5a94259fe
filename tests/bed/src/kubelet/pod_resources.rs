//! The socket by which others see that a kubelet has started.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use tokio::net::UnixListener;

/// Listens at `path`.
///
/// As the kubelet does it: what an earlier life left is unlinked, and the new socket is bound
/// under a temporary name and renamed. The file outlives the listener, as after a kill.
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

/// Connecting is all that anybody does there; connections are taken so that the queue of the
/// listener does not fill up.
pub(super) async fn accept_all(listener: Option<UnixListener>) {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        drop(listener.accept().await.unwrap());
    }
}
