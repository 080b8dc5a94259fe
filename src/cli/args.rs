//! The commands and their flags.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::ndr::flags::NdrFlags;
use crate::config::LogLevel;
use crate::config::choice::words;

const AFTER_HELP: &str = "\
Files:
  /etc/node-storage-driver-registrar/config.toml, then config.d/*.toml beside it
  /run/node-storage-driver-registrar/: lock, state.json, control.sock

run also accepts the flags of node-driver-registrar, without a configuration file:
see run --help.

Exit codes:
  0 success, 1 failure or the answer is no, 64 bad usage, 69 the cluster could not be
  asked, 78 bad configuration";

/// Registers CSI drivers that run on the host with the kubelet, and keeps them registered.
#[derive(Debug, Parser)]
#[command(name = "node-storage-driver-registrar", version, about, after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Configuration file; the directory config.d beside it is read, too.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) config: Option<PathBuf>,

    /// Directory of the lock, the state and the control socket.
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) runtime_dir: Option<PathBuf>,

    /// Log level: error, warn, info, debug or trace.
    #[arg(long, global = true, value_name = "LEVEL", value_parser = PossibleValuesParser::new(words::<LogLevel>()), hide_possible_values = true)]
    pub(crate) log_level: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// The command; `run` if there is none.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Register drivers and keep them registered; the default command.
    Run(NdrFlags),
    #[command(flatten)]
    Once(OneShot),
}

/// A command that ends by itself.
#[derive(Debug, Subcommand)]
pub(crate) enum OneShot {
    /// Apply the changed configuration; returns when the daemon has applied it.
    Reload,
    /// Dry run: validate the configuration, and print what the daemon would do with it.
    Check,
    /// Print the effective configuration, each value with its source.
    Config,
    /// Show the state of the drivers; exits with 0 if all are ready, and at least one exists.
    ///
    /// A driver is ready if the kubelet has registered it and it answers, and if verify has not found it
    /// missing in the cluster. A driver without a Node service does not count unless it is named. A configuration that the daemon refused is also a failure.
    Status(StatusOptions),
    /// Wait until drivers are ready, that is, registered and answering, and not known to be missing in the cluster.
    ///
    /// For rollout tools: wait --strict --timeout 2m
    Wait(WaitOptions),
    /// Ask a driver for its identity and list the CSI rules that it breaks; exits with 0 if it can be
    /// registered.
    Inspect {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Print the CSIDriver object that fits the driver: YAML with comments, or JSON with --json.
        ///
        /// Exits with 0 if the object was printed. Problems of the driver are on stderr.
        #[arg(long)]
        csidriver: bool,
        /// The driver's socket: a path, or unix:///path. Or the driver's id or name: its socket is then
        /// looked up in the daemon's status, or in the configuration if no daemon runs.
        #[arg(value_name = "SOCKET|DRIVER")]
        driver: PathBuf,
    },
    /// Find out why a driver is not registered; exits with 0 if there is no fault.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The proc file system to read: the host's, if the doctor runs in a container.
        #[arg(long, value_name = "PATH", default_value = "/proc", hide = true)]
        proc: PathBuf,
    },
    /// Recreate a driver's link, so that the kubelet registers the driver again.
    Reannounce {
        /// The driver's id or name.
        driver: String,
    },
    /// Remove a driver's link until you publish the driver again; refused while its volumes are in use.
    Withdraw {
        /// Withdraw the driver although pods use its volumes: they cannot be unmounted until you publish it.
        #[arg(long)]
        force: bool,
        /// The driver's id or name.
        driver: String,
    },
    /// Publish a driver that you withdrew.
    Publish {
        /// The driver's id or name.
        driver: String,
    },
    /// Remove the links and sockets that a daemon left; the packages run this on their removal.
    #[command(hide = true)]
    CleanUp,
    /// Compare the registered drivers with the cluster: CSINode, Node and CSIDriver; exits with 0 if the
    /// cluster agrees, 1 if it does not, and 69 if it could not be asked.
    ///
    /// Run as root: it uses the identity of this node's kubelet.
    Verify(VerifyOptions),
    /// Print the completion script of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the configuration that is equivalent to flags of node-driver-registrar.
    ImportNdr {
        #[command(flatten)]
        flags: NdrFlags,
        /// Arguments that are no flags, for an error that names the right form.
        #[arg(hide = true)]
        words: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusOptions {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// Follow changes until interrupted, also across restarts of the daemon.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Also fail if the daemon has a note of a problem, runs another version than this program, would refuse
    /// the configuration on disk, or has not read it since it changed.
    #[arg(long, conflicts_with = "watch")]
    pub(crate) strict: bool,
    /// Ids or names: show these drivers, and exit with 0 if they are ready. Default: all drivers.
    #[arg(value_name = "DRIVER")]
    pub(crate) drivers: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct VerifyOptions {
    /// Have the kubelet register each driver again that CSINode does not list, or lists with another node id.
    #[arg(long)]
    pub(crate) repair: bool,
    /// Do not tell the daemon what was found; the doctor uses this.
    #[arg(long, hide = true, conflicts_with = "repair")]
    pub(crate) no_report: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The kubeconfig to use. Default: cluster.kubeconfig, or else the kubelet's own.
    #[arg(long, value_name = "PATH")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The name of this node in the cluster. Default: cluster.node_name, or else as the API server says.
    #[arg(long, value_name = "NAME")]
    pub(crate) node: Option<String>,
    /// How long the API server may take to answer, from 1s to 10m.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = patience)]
    pub(crate) timeout: Duration,
}

fn patience(text: &str) -> Result<Duration, String> {
    let span = humantime::parse_duration(text);
    let span = span.map_err(|error| format!("{error}; write \"10s\", for example"))?;
    match span.as_secs() {
        1..=600 => Ok(span),
        _ => Err("must be at least 1s and at most 10m".to_owned()),
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct WaitOptions {
    /// The state to wait for.
    #[arg(long = "for", value_name = "STATE", default_value = "ready")]
    pub(crate) state: WaitState,
    /// Also wait until the daemon has no note of a problem, runs this program's version, and has read the
    /// configuration on disk, which it must accept. This concerns the whole node, whichever state or drivers the command
    /// names.
    #[arg(long)]
    pub(crate) strict: bool,
    /// How long to wait.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Duration,
    /// Ids or names. Default: all drivers; at least one must exist.
    #[arg(value_name = "DRIVER")]
    pub(crate) drivers: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitState {
    /// The driver is registered and answers, and the cluster is not known to lack it.
    Ready,
    /// The kubelet has registered the driver.
    Registered,
    /// The driver answers and its link exists.
    Serving,
}
