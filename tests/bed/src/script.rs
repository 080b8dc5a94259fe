//! A program that the test writes or copies.
//!
//! Another process writes it: a child that another thread forks would inherit the test's descriptor,
//! and the kernel does not run a program that a process has open for writing ("text file busy").

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes an executable script.
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

/// Copies a program to a path where another user can run it.
pub fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}
