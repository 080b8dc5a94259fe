//! `completions`: the script by which a shell completes the command line.
//!
//! clap_complete generates the scripts from the command line. A part of ours, for each of the three
//! shells, asks this program for the drivers. clap_complete's own engine for such values is unstable, and
//! would start this program for every completion.

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
    with_drivers(shell, &String::from_utf8_lossy(&script))
}

/// The generated script, followed by the part that asks for the drivers.
fn with_drivers(shell: Shell, script: &str) -> String {
    match shell {
        Shell::Bash => script.to_owned() + include_str!("completions/drivers.bash"),
        Shell::Fish => script.to_owned() + include_str!("completions/drivers.fish"),
        // zsh loads the file as the body of the function, and the generated script ends with a call of
        // itself where it is that body. In a function of another name it only defines its functions.
        Shell::Zsh => {
            let load = "_node-storage-driver-registrar-load";
            let drivers = include_str!("completions/drivers.zsh");
            format!(
                "#compdef {NAME}\n\n{load}() {{\n{script}}}\n{load}\nunfunction {load}\n{drivers}"
            )
        }
        _ => script.to_owned(),
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
                // Our parts call a hidden command themselves.
                let calls = script.matches(&format!(" {name} -- ")).count();
                let named = script.matches(name).count();
                assert!(!hidden.is_hide_set() || named == calls, "{shell}: {script}");
            }
        }
    }

    #[test]
    fn the_functions_that_our_part_calls_are_generated() {
        for (shell, function) in [
            (Shell::Bash, "_nsdr() {"),
            (Shell::Zsh, "\n_node-storage-driver-registrar() {"),
        ] {
            let script = completions(shell);
            assert!(script.contains(function), "{shell}: {script}");
        }
    }
}
