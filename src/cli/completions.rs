//! `completions`: what a shell needs to complete our command line.

use std::io::{self, Write};

use clap_complete::{Shell, generate};

use super::exit::Exit;

pub(crate) fn completions(shell: Shell) -> Result<(), Exit> {
    let mut command = super::command();
    let name = command.get_name().to_owned();
    // Into memory first: clap_complete panics when the reader of a pipe has gone.
    let mut script = Vec::new();
    generate(shell, &mut command, name, &mut script);
    match io::stdout().write_all(&script) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => {
            outcome.map_err(|error| Exit::Failed(format!("cannot print the completions: {error}")))
        }
    }
}
