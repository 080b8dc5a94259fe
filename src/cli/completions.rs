//! `completions`: what a shell needs to complete our command line.

use clap::Command;
use clap_complete::{Shell, generate};

use super::exit::Exit;

const NAME: &str = env!("CARGO_PKG_NAME");

pub(crate) fn completions(shell: Shell) -> Result<(), Exit> {
    super::print(&script(shell))
}

fn script(shell: Shell) -> String {
    // Into memory first: clap_complete panics when the reader of a pipe has gone.
    let mut script = Vec::new();
    generate(shell, &mut shown(), NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The command line without its hidden commands, which clap_complete would offer.
fn shown() -> Command {
    let all = super::command();
    let commands = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments())
        .subcommands(commands)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn no_shell_is_offered_a_hidden_command() {
        for shell in Shell::value_variants() {
            let script = script(*shell);
            assert!(script.contains("import-ndr"), "{shell}: {script}");
            assert!(!script.contains("clean-up"), "{shell}: {script}");
        }
    }
}
