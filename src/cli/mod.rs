//! The command line: its commands, a file for each, and the exit code.

mod args;
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
#[cfg(feature = "cluster")]
mod verification;
mod verify;
mod wait;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::args::{Args, Command, OneShot};
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

/// Runs the program verify with these arguments, as the command `verify` gives them.
#[cfg(feature = "cluster")]
pub fn verify_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    verification::main(arguments).map_or_else(Exit::report, |()| ExitCode::SUCCESS)
}

fn start(line: Normalized) -> Result<(), Exit> {
    let mut args = Args::try_parse_from(&line.arguments).map_err(Exit::CommandLine)?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(Exit::failed)?;
    let command = args.command.take();
    // Apart from each other, so that the code of the other commands takes no memory of the daemon.
    let done = match command.unwrap_or_else(|| Command::Run(NdrFlags::default())) {
        Command::Run(flags) => runtime.block_on(run::run(&args, &flags, &line.ignored)),
        Command::Once(command) => runtime.block_on(dispatch(&args, &command, &line)),
    };
    // A thread that hangs in a file system would hold up the end of the process.
    runtime.shutdown_background();
    done
}

async fn dispatch(args: &Args, command: &OneShot, line: &Normalized) -> Result<(), Exit> {
    match command {
        OneShot::Reload => reload(args).await,
        OneShot::Check => check::check(args).await,
        OneShot::Config => print(&configuration::load(args)?.explain()),
        OneShot::Status(options) if options.watch => watch::watch(args, options).await,
        OneShot::Status(options) => status::status(args, options).await,
        OneShot::Wait(options) => wait::wait(args, options).await,
        OneShot::Inspect {
            json,
            csidriver: true,
            driver,
        } => inspect::csidriver(args, driver, *json).await,
        OneShot::Inspect { json, driver, .. } => inspect::inspect(args, driver, *json).await,
        OneShot::Doctor { json, proc } => doctor::doctor(args, proc, *json).await,
        OneShot::Reannounce { driver } => act(args, ManualAction::Reannounce, driver).await,
        OneShot::Withdraw { force, driver } => {
            act(args, ManualAction::Withdraw { force: *force }, driver).await
        }
        OneShot::Publish { driver } => act(args, ManualAction::Publish, driver).await,
        OneShot::CleanUp => clean_up::clean_up(args).await,
        OneShot::Verify(_) => Err(verify::become_verify(&line.arguments)),
        OneShot::Completions { shell } => print(&completions(*shell)),
        OneShot::ImportNdr { flags, words } => ndr::import::import(flags, &line.ignored, words),
    }
}
