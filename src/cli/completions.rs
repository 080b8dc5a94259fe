//! `completions`: the script by which a shell completes the command line, as clap_complete generates it.

use clap::Command;
use clap_complete::{Shell, generate};

const NAME: &str = env!("CARGO_PKG_NAME");
/// The program's name in the generated script of bash. In a script of clap_complete 4.6 for a program with
/// a dash in its name, commands have no options: the script sets a variable with `__` for the dash, and
/// compares it with `__subcmd__` (<https://github.com/clap-rs/clap/issues/6421>).
const NAME_IN_BASH: &str = "nsdr";

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
    let name = match shell {
        Shell::Bash => NAME_IN_BASH,
        _ => NAME,
    };
    generate(shell, &mut shown, name, &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    match shell {
        // The last word of `complete` is the program that the shell runs.
        Shell::Bash => script.replace(
            &format!("default {NAME_IN_BASH}\n"),
            &format!("default {NAME}\n"),
        ),
        _ => script,
    }
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
            for hidden in super::super::command().get_subcommands() {
                let name = hidden.get_name();
                assert!(
                    !hidden.is_hide_set() || !script.contains(name),
                    "{shell}: {script}"
                );
            }
        }
    }

    #[test]
    fn bash_completes_the_program_by_its_own_name() {
        let script = completions(Shell::Bash);
        let registered = script
            .lines()
            .filter(|line| line.trim().starts_with("complete "));
        let programs: Vec<_> = registered
            .filter_map(|line| line.rsplit(' ').next())
            .collect();
        assert_eq!(programs, [NAME, NAME], "{script}");
    }
}
