//! The commands and their flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::ndr::NdrFlags;
use crate::config::LogLevel;
use crate::config::choice::words;

const AFTER_HELP: &str = "\
Files:
  /etc/node-storage-driver-registrar/config.toml, then config.d/*.toml beside it
  /run/node-storage-driver-registrar/: lock, state.json, control.sock

The flags of node-driver-registrar work on run and without a command, with no
configuration file: see run --help.

Exit codes:
  0 well, 1 not well or failed, 64 usage, 78 bad configuration";

/// Registers CSI drivers that live on the host with the kubelet, and keeps them registered.
#[derive(Debug, Parser)]
#[command(name = "node-storage-driver-registrar", version, about, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Configuration file; its config.d is the one beside it.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,

    /// Directory for the lock, the state and the control socket.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) runtime_dir: Option<PathBuf>,

    /// How much to log: error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = PossibleValuesParser::new(words::<LogLevel>()), hide_possible_values = true)]
    pub(crate) log_level: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What to do; without any, `run`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register drivers, and keep them registered; the default without a command.
    Run(NdrFlags),
    /// Apply a changed configuration; returns when that is done.
    Reload,
    /// Validate the configuration, and say what it would do.
    Check,
    /// Print the effective configuration, each value with where it came from.
    Config,
    /// Show how every driver stands; 0 when all are registered.
    Status(StatusOptions),
    /// Wait until drivers are registered or served.
    Wait(WaitOptions),
    /// Ask a driver who it is, and say which rules of CSI it breaks; 0 when it can be registered.
    Inspect(InspectOptions),
    /// Find out why a driver is not registered; 0 unless something is wrong.
    Doctor(DoctorOptions),
    /// Make a driver's link anew, so that the kubelet registers it again.
    Reannounce(DriverArgument),
    /// Take a driver's link away until it is published again.
    Withdraw(DriverArgument),
    /// Publish a driver that was withdrawn by hand.
    Publish(DriverArgument),
    /// Remove the links and sockets that a daemon has left; for the removal of the package.
    #[command(hide = true)]
    CleanUp,
    /// Print the completion script of a shell.
    Completions(CompletionsArgument),
    /// Print the configuration that does what a node-driver-registrar is told by its unit or
    /// command line.
    ImportNdr(ImportOptions),
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusOptions {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow changes until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InspectOptions {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The driver's socket: a path, or unix:///path.
    #[arg(value_name = "SOCKET")]
    pub(crate) socket: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorOptions {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The proc file system to look at: the host's, where we run in a container.
    #[arg(long, value_name = "PATH", default_value = "/proc", hide = true)]
    pub(crate) proc: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct WaitOptions {
    /// What to wait for.
    #[arg(long = "for", value_name = "STATE", default_value = "registered")]
    pub(crate) state: WaitState,
    /// How long to wait.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Ids or names; none means all, at least one.
    #[arg(value_name = "DRIVER")]
    pub(crate) drivers: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitState {
    /// The kubelet has registered the driver.
    Registered,
    /// The driver answers and its link is there.
    Serving,
}

impl WaitState {
    pub(crate) fn word(self) -> &'static str {
        match self {
            WaitState::Registered => "registered",
            WaitState::Serving => "serving",
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ImportOptions {
    /// A unit's name or file, or the command line, in one argument or in its own.
    #[arg(
        value_name = "UNIT-OR-COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DriverArgument {
    /// The driver's id or name.
    #[arg(value_name = "DRIVER")]
    pub(crate) driver: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgument {
    /// The shell that is to complete.
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
