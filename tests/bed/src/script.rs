//! A program written by the test.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a script that can be run. Another process writes it: a child that another thread forks
/// would inherit our descriptor, and a program that somebody has open for writing cannot be run
/// ("text file busy").
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
