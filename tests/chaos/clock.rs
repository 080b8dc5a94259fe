//! The registrar's wall clock, which the test can set.

use std::fs;
use std::path::{Path, PathBuf};

use bed::Node;
use jiff::Timestamp;

/// The library of the Debian package faketime, which sets the wall clock of its process.
const LIBRARY: &str = if cfg!(target_arch = "aarch64") {
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1"
} else {
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
};

pub(crate) fn can_be_set() -> bool {
    Path::new(LIBRARY).exists()
}

/// The prefix of a command whose clock the test sets. The process reads the file each time it asks for
/// the time.
pub(crate) fn prefix(node: &Node) -> String {
    format!(
        "env LD_PRELOAD={LIBRARY} FAKETIME_TIMESTAMP_FILE={} FAKETIME_NO_CACHE=1 \
         FAKETIME_DONT_FAKE_MONOTONIC=1 NO_FAKE_STAT=1 ",
        file(node).display()
    )
}

/// The clock is off by so many seconds from now on.
pub(crate) fn set(node: &Node, seconds: i64) {
    // By a rename: a process that reads an empty file has no time.
    let new = file(node).with_extension("new");
    fs::write(&new, format!("{seconds:+}")).unwrap();
    fs::rename(&new, file(node)).unwrap();
}

/// By how many seconds the time of a new log line is off.
pub(crate) fn error_of(line: &str) -> i64 {
    let time: Timestamp = line.split_whitespace().next().unwrap().parse().unwrap();
    time.as_second() - Timestamp::now().as_second()
}

fn file(node: &Node) -> PathBuf {
    node.root().join("clock")
}
