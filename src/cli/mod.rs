//! The command line: what was asked, who does it, and the exit code.

mod args;
mod check;
mod clean_up;
mod client;
mod completions;
mod doctor;
mod exit;
mod inspect;
mod ndr;
mod render;
mod run;
mod status;
mod wait;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use self::args::{Args, Command};
use self::exit::{Exit, complain};
use self::ndr::flags::NdrFlags;
use self::ndr::normalize::Spelled;
use self::render::Screen;
use crate::config::{self, ConfigError, Loaded, Overrides, Sources};
use crate::disk::runtime_dir;
use crate::kubelet::root::{self, KubeletRoot, RootSource};
use crate::supervisor::state_file::SavedState;
use crate::systemd::main_pids_of_kubelets;

/// The command line as clap knows it, for the man page and the completions.
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs the program with these arguments, the first of them its own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Spelled { arguments, ignored } = ndr::normalize::respell(arguments);
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    match dispatch(&args, &ignored) {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => exit.report(),
    }
}

/// Prints a text that ends with a line's end. A reader that has seen enough is no failure.
fn print(text: &str) -> Result<(), Exit> {
    status::is_gone(Screen::stdout().print(text.trim_end())).map(drop)
}

/// `ignored` are flags of the command line that have no effect.
fn dispatch(args: &Args, ignored: &[String]) -> Result<(), Exit> {
    let Some(command) = &args.command else {
        return run::run(args, &NdrFlags::default(), ignored);
    };
    match command {
        Command::Run(flags) => run::run(args, flags, ignored),
        Command::Check => {
            let loaded = load(args)?;
            print(&check::report(&loaded))?;
            check::warn(&loaded);
            Ok(())
        }
        Command::Config => print(&load(args)?.explain()),
        Command::Status(options) => status::status(args, options),
        Command::Wait(options) => wait::wait(args, options),
        Command::Inspect(options) => inspect::inspect(args, options),
        Command::Doctor(options) => doctor::doctor(args, options),
        Command::Reannounce(driver) => client::reannounce(args, driver),
        Command::Withdraw(driver) => client::withdraw(args, driver),
        Command::Publish(driver) => client::publish(args, driver),
        Command::Reload => client::reload(args),
        Command::CleanUp => clean_up::clean_up(args),
        Command::Completions(argument) => completions::completions(argument.shell),
        Command::ImportNdr(options) => ndr::import::import(options),
    }
}

/// The configuration as this command line has it, with the kubelet's root found.
fn load(args: &Args) -> Result<Loaded, ConfigError> {
    let mut loaded = config::load(&sources(args))?;
    for warning in loaded.warnings() {
        complain(&format!("warning: {warning}"));
    }
    if loaded.needs_kubelet_root() {
        let runtime = runtime_dir::locate(args.runtime_dir.as_deref());
        let KubeletRoot { path, why } = find_root(root_before(&runtime), None);
        loaded.resolve_kubelet_root(path, why.to_string())?;
    }
    Ok(loaded)
}

/// The root of this node's kubelet; see [`root::find`].
fn find_root(called: Option<KubeletRoot>, known: Option<KubeletRoot>) -> KubeletRoot {
    root::find(called, known, main_pids_of_kubelets)
}

/// The root of the kubelet that last called a run with this runtime directory.
fn root_before(runtime: &Path) -> Option<KubeletRoot> {
    let (path, kubelet) = SavedState::kubelet_root(&runtime_dir::state(runtime))?;
    let why = match kubelet.filter(|kubelet| kubelet.is_running()) {
        Some(kubelet) => RootSource::Called { pid: kubelet.pid },
        None => RootSource::Before,
    };
    Some(KubeletRoot { path, why })
}

fn sources(args: &Args) -> Sources {
    let mut sources = Sources::of_command(args.config.clone(), Overrides::default());
    set_log_level(args, &mut sources);
    sources
}

fn set_log_level(args: &Args, sources: &mut Sources) {
    if let Some(level) = &args.log_level {
        let key = ["log", "level"];
        sources.overrides.set("--log-level", &key, level.clone());
    }
}
