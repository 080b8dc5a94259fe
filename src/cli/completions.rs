//! `completions`: what a shell needs to complete our command line.

use clap_complete::{Shell, generate};

use super::exit::Exit;

pub(crate) fn completions(shell: Shell) -> Result<(), Exit> {
    let mut command = super::command();
    let name = command.get_name().to_owned();
    // Into memory first: clap_complete panics when the reader of a pipe has gone.
    let mut script = Vec::new();
    generate(shell, &mut command, name, &mut script);
    super::print(&String::from_utf8_lossy(&script))
}
