//! The binary run through a script that first takes it somewhere else, which takes root.

use bed::registrar::chosen;
use bed::{Node, Registrar, script};

use crate::scene::survival::PROGRAM;

/// The registrar with `run` wrapped in `script`, whose last words are the program and its
/// arguments. Nothing without root, which `tests/run` has.
pub(crate) fn registrar(node: &Node, script: &str) -> Option<Registrar> {
    if !nix::unistd::geteuid().is_root() {
        bed::skipped("root");
        return None;
    }
    let wrapper = node.root().join("registrar");
    let program = chosen(PROGRAM);
    let program = program.display();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = run ] || exec {program} \"$@\"\nset -- {program} \"$@\"\n{script}\n"
    );
    script::write(&wrapper, &script);
    Some(Registrar::exactly(wrapper, node))
}
