//! A program written or copied by the test.
//!
//! Another process does it: a child that another thread forks would inherit our descriptor, and a
//! program that somebody has open for writing cannot be run ("text file busy").

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script that can be run.
pub fn write(path: &Path, script: &str) {
    let mut writer = Command::new("sh")
        .args(["-c", "cat >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut words = writer.stdin.take().unwrap();
    words.write_all(script.as_bytes()).unwrap();
    drop(words);
    assert!(writer.wait().unwrap().success());
}

/// Copies a program, to where another user can run it.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}
