//! The commands with their flags, and the exit codes.

use std::collections::BTreeSet;

use crate::list::keeps;
use crate::setup;

/// A flag or an argument as the lists have it, and a line for each word that it allows.
fn argument(argument: &clap::Arg) -> Vec<String> {
    let takes_value = argument.get_action().takes_values();
    let names = argument.get_value_names().unwrap_or_default();
    let value: Vec<String> = names.iter().map(|name| format!(" {name}")).collect();
    let defaults = argument.get_default_values();
    let default: Vec<_> = defaults
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    let name = match argument.get_long() {
        Some(long) if takes_value => format!("--{long}{}", value.concat()),
        Some(long) => format!("--{long}"),
        None => value.concat().trim_start().to_owned(),
    };
    let mut line = name.clone();
    if argument.is_required_set() {
        line += ", required";
    }
    if takes_value && !default.is_empty() {
        line += &format!(", default {}", default.join(" "));
    }
    let values = argument.get_possible_values();
    let words = values.iter().filter(|_| takes_value);
    let words = words.map(|word| format!("{name} allows {}", word.get_name()));
    [line].into_iter().chain(words).collect()
}

/// Hidden commands and flags are for the packages and the other programs of this one.
#[test]
fn every_promised_command_and_flag_is_there() {
    let mut program = node_storage_driver_registrar::cli::command();
    program.build();
    let shown = |command: &clap::Command| -> Vec<String> {
        let arguments = command.get_arguments();
        let arguments = arguments.filter(|argument| !argument.is_hide_set());
        arguments.flat_map(argument).collect()
    };
    let global: BTreeSet<String> = shown(&program).into_iter().collect();
    let mut lines: Vec<String> = global.iter().cloned().collect();
    let commands = program.get_subcommands();
    for command in commands.filter(|it| !it.is_hide_set() && it.get_name() != "help") {
        let name = command.get_name();
        lines.push(name.to_owned());
        let own = shown(command).into_iter();
        let own = own.filter(|line| !global.contains(line));
        lines.extend(own.map(|line| format!("{name} {line}")));
    }
    keeps("command", lines);
}

/// A node with a registered driver, whose configuration becomes bad in the end.
#[test]
fn every_ending_has_its_exit_code() {
    let (scene, _driver, _kubelet) = setup().registered();
    let mut lines = Vec::new();
    let mut ends = |meaning: &str, arguments: &[&str]| {
        let output = scene.registrar.run_cli(arguments);
        let code = output.status.code().unwrap();
        lines.push(format!("{code} {meaning}"));
    };
    ends("success", &["status"]);
    ends("failure, or the answer is no", &["status", "nobody"]);
    ends("bad usage", &["status", "--no-such-flag"]);
    ends(
        "the cluster could not be asked",
        &["verify", "--kubeconfig", "/nowhere"],
    );
    scene.node.write_config("[nonsense]\n");
    for command in ["check", "config", "reload", "run"] {
        ends("bad configuration", &[command]);
    }
    keeps("exit", lines);
}
