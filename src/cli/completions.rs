//! `completions`: the script by which a shell completes the command line.

use clap::Command;
use clap_complete::{Shell, generate};

const NAME: &str = env!("CARGO_PKG_NAME");

/// The completion script of a shell. Hidden commands are left out, which clap_complete would offer.
pub fn completions(shell: Shell) -> String {
    let all = super::command();
    let commands = all.get_subcommands();
    let mut shown = Command::new(NAME)
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments())
        .subcommands(commands.filter(|command| !command.is_hide_set()));
    // Into memory first: clap_complete panics when the reader of a pipe has gone.
    let mut script = Vec::new();
    generate(shell, &mut shown, NAME, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn no_shell_is_offered_a_hidden_command() {
        for shell in Shell::value_variants() {
            let script = completions(*shell);
            assert!(script.contains("import-ndr"), "{shell}: {script}");
            assert!(!script.contains("clean-up"), "{shell}: {script}");
        }
    }
}
