//! The binary run through a script that first takes it somewhere else, which takes root.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use bed::registrar::chosen;
use bed::{Node, Registrar};

use crate::scene::PROGRAM;

/// The registrar with `run` wrapped in `script`, whose last words are the program and its
/// arguments. Nothing without root, which `tests/run` has.
pub(crate) fn registrar(node: &Node, script: &str) -> Option<Registrar> {
    if !nix::unistd::geteuid().is_root() {
        assert!(
            std::env::var_os("CI").is_none(),
            "this takes root, and nothing may be skipped in CI"
        );
        eprintln!("skipped: this takes root");
        return None;
    }
    let wrapper = node.root().join("registrar");
    let program = chosen(PROGRAM);
    let program = program.display();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = run ] || exec {program} \"$@\"\nset -- {program} \"$@\"\n{script}\n"
    );
    write_program(&wrapper, &script);
    Some(Registrar::exactly(wrapper, node))
}

/// Written by a process of its own: a child that another thread forks would inherit our descriptor,
/// and a program that somebody has open for writing cannot be run ("text file busy").
fn write_program(path: &Path, script: &str) {
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
