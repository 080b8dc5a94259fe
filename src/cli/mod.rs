//! The command line: its commands, a file for each, and the exit code.

mod args;
mod check;
mod clean_up;
mod client;
mod completions;
mod configuration;
mod doctor;
mod exit;
mod inspect;
mod manual;
mod ndr;
mod reload;
mod render;
mod run;
mod status;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::args::{Args, Command};
pub use self::completions::completions;
use self::exit::Exit;
use self::ndr::flags::NdrFlags;
use self::ndr::normalize::{Normalized, normalize};
use self::render::print;
use crate::api::command::ManualAction;

/// The command line as clap knows it, for the man page and the completions.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the program with these arguments, the first of which is its own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Normalized { arguments, ignored } = normalize(arguments);
    let done = Args::try_parse_from(arguments)
        .map_err(Exit::CommandLine)
        .and_then(|args| dispatch(&args, &ignored));
    done.map_or_else(Exit::report, |()| ExitCode::SUCCESS)
}

/// Runs the command. `ignored` are flags of klog on the command line.
fn dispatch(args: &Args, ignored: &[String]) -> Result<(), Exit> {
    match &args.command {
        None => run::run(args, &NdrFlags::default(), ignored),
        Some(Command::Run(flags)) => run::run(args, flags, ignored),
        Some(Command::Reload) => reload::reload(args),
        Some(Command::Check) => check::check(args),
        Some(Command::Config) => print(&configuration::load(args)?.explain()),
        Some(Command::Status(options)) => status::status(args, options),
        Some(Command::Wait(options)) => wait::wait(args, options),
        Some(Command::Inspect(options)) => inspect::inspect(args, options),
        Some(Command::Doctor(options)) => doctor::doctor(args, options),
        Some(Command::Reannounce(driver)) => manual::act(args, ManualAction::Reannounce, driver),
        Some(Command::Withdraw(driver)) => manual::act(args, ManualAction::Withdraw, driver),
        Some(Command::Publish(driver)) => manual::act(args, ManualAction::Publish, driver),
        Some(Command::CleanUp) => clean_up::clean_up(args),
        Some(Command::Completions { shell }) => print(&completions(*shell)),
        Some(Command::ImportNdr(options)) => ndr::import::import(options),
    }
}
