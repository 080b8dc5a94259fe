//! The binary run through a script that first takes it somewhere else, which takes root.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bed::{Node, Registrar};

use crate::scene::PROGRAM;

/// The registrar with `run` wrapped in `script`, whose last words are the program and its
/// arguments. Nothing where it cannot be wrapped.
pub(crate) fn registrar(node: &Node, script: &str) -> Option<Registrar> {
    if !nix::unistd::geteuid().is_root() || std::env::var_os("REGISTRAR_BIN").is_some() {
        eprintln!("skipped: this takes root, and the binary of this build");
        return None;
    }
    let wrapper = node.root().join("registrar");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = run ] || exec {PROGRAM} \"$@\"\nset -- {PROGRAM} \"$@\"\n{script}\n"
    );
    fs::write(&wrapper, script).unwrap();
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).unwrap();
    Some(Registrar::new(wrapper, node))
}
