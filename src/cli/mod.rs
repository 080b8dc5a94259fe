//! The command line: what was asked, who does it, and the exit code.

mod args;
mod check;
mod client;
mod completions;
mod exit;
mod run;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::args::{Args, Command};
use self::exit::Exit;
use crate::config::{self, Loaded, Overrides, Sources};

/// The command line as clap knows it, for the man page and the completions.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the program with these arguments, the first of them its own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

fn dispatch(args: &Args) -> Result<(), Exit> {
    match args.command.as_ref().unwrap_or(&Command::Run) {
        Command::Run => run::run(args),
        Command::Check => check::check(&load(args)?),
        Command::Config => {
            print!("{}", load(args)?.explain());
            Ok(())
        }
        Command::Status(options) => client::status(args, options),
        Command::Wait(options) => wait::wait(args, options),
        Command::Reannounce(driver) => client::reannounce(args, driver),
        Command::Withdraw(driver) => client::withdraw(args, driver),
        Command::Publish(driver) => client::publish(args, driver),
        Command::Reload => client::reload(args),
        Command::Completions(argument) => completions::completions(argument.shell),
    }
}

/// The configuration as this command line has it.
fn load(args: &Args) -> Result<Loaded, Exit> {
    config::load(&sources(args)).map_err(|error| Exit::Config(error.to_string()))
}

fn sources(args: &Args) -> Sources {
    let mut overrides = Overrides::default();
    if let Some(level) = &args.log_level {
        overrides.set("--log-level", &["log", "level"], level.clone());
    }
    Sources::of_process(args.config.clone(), overrides)
}
