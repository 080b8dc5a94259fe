//! Many connections that a client holds and does not use.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Once;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// More than all tests of one binary hold at the same time.
const OPEN_FILES: u64 = 65_536;

/// Opens this many connections and writes `bytes` to each. The peer may have closed some of them since.
pub fn flood(path: &Path, count: usize, bytes: &[u8]) -> Vec<UnixStream> {
    let open = |_| {
        let mut stream = UnixStream::connect(path).unwrap();
        // The peer may have closed it already for a newer connection.
        match stream.write_all(bytes) {
            Ok(()) | Err(_) => stream,
        }
    };
    (0..count).map(open).collect()
}

/// Raises the limit of open files of this process, once and before any test starts a process.
///
/// The limit belongs to all tests of a binary, and every process that they start inherits it: a test that
/// raised it for itself would change the others at a random moment.
pub(crate) fn raise_file_limit() {
    static RAISED: Once = Once::new();
    RAISED.call_once(|| {
        let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, most.min(OPEN_FILES), most).unwrap();
    });
}
