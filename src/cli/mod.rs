//! The command line: its commands, a file for each, and the exit code.

mod args;
mod candidates;
mod check;
mod clean_up;
mod client;
mod completions;
mod configuration;
mod doctor;
mod exit;
mod follower;
mod gate;
mod inspect;
mod ndr;
mod render;
mod run;
mod selection;
mod status;
mod unapplied;
mod wait;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::args::{Args, Command};
use self::client::{act, reload};
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
    start(normalize(arguments)).map_or_else(Exit::report, |()| ExitCode::SUCCESS)
}

fn start(line: Normalized) -> Result<(), Exit> {
    let args = Args::try_parse_from(line.arguments).map_err(Exit::CommandLine)?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(Exit::failed)?;
    let done = runtime.block_on(dispatch(&args, &line.ignored));
    // A thread that hangs in a file system would hold up the end of the process.
    runtime.shutdown_background();
    done
}

/// Runs the command. `ignored` are flags of klog on the command line.
async fn dispatch(args: &Args, ignored: &[String]) -> Result<(), Exit> {
    match &args.command {
        None => run::run(args, &NdrFlags::default(), ignored).await,
        Some(Command::Run(flags)) => run::run(args, flags, ignored).await,
        Some(Command::Reload) => reload(args).await,
        Some(Command::Check) => check::check(args).await,
        Some(Command::Config) => print(&configuration::load(args)?.explain()),
        Some(Command::Status(options)) if options.watch => watch::watch(args, options).await,
        Some(Command::Status(options)) => status::status(args, options).await,
        Some(Command::Wait(options)) => wait::wait(args, options).await,
        Some(Command::Inspect { json, driver }) => inspect::inspect(args, driver, *json).await,
        Some(Command::Doctor { json, proc }) => doctor::doctor(args, proc, *json).await,
        Some(Command::Reannounce { driver }) => act(args, ManualAction::Reannounce, driver).await,
        Some(Command::Withdraw { driver }) => act(args, ManualAction::Withdraw, driver).await,
        Some(Command::Publish { driver }) => act(args, ManualAction::Publish, driver).await,
        Some(Command::CleanUp) => clean_up::clean_up(args),
        Some(Command::Completions { shell }) => print(&completions(*shell)),
        Some(Command::CompleteDrivers { words }) => candidates::complete_drivers(words).await,
        Some(Command::ImportNdr { words }) => ndr::import::import(args, words),
    }
}
