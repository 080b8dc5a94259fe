//! The program verify: `verify` as it is carried out, with the network that the daemon does not have.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use nix::sys::prctl::set_dumpable;
use tokio::runtime::Builder;
use tokio::sync::OnceCell;

use super::args::{Args, Command, OneShot, VerifyOptions};
use super::configuration::load;
use super::exit::{Exit, print_error};
use super::render::{Screen, keyed, report, wrap};
use crate::cluster::look::Look;
use crate::cluster::report::{DriverReport, Report};
use crate::cluster::verification::{Verification, VerificationError};
use crate::config::NodeName;
use crate::disk::runtime_dir::locate;

/// The columns before what differs.
const KEY: usize = 10;

/// Runs the program with the arguments of the command `verify`, the first of which is a program's name.
pub(super) fn main(arguments: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if !arguments.iter().any(|argument| argument == "verify") {
        return Err(not_by_itself());
    }
    let args = Args::try_parse_from(arguments).map_err(Exit::CommandLine)?;
    let Some(Command::Once(OneShot::Verify(options))) = &args.command else {
        return Err(not_by_itself());
    };
    // The memory has the kubelet's key or token in it, and a core dump would keep that on disk.
    set_dumpable(false).map_err(Exit::failed)?;
    let mut builder = Builder::new_current_thread();
    let runtime = builder.enable_all().build().map_err(Exit::failed)?;
    let done = runtime.block_on(verify(&args, options));
    // A thread that waits for a name server or a file system would hold up the end of the process.
    runtime.shutdown_background();
    done
}

fn not_by_itself() -> Exit {
    let why = "this program is the command `node-storage-driver-registrar verify`";
    Exit::Usage(why.to_owned())
}

async fn verify(args: &Args, options: &VerifyOptions) -> Result<(), Exit> {
    let settings = load(args)?.settings;
    let cluster = settings.cluster.clone();
    let kubeconfig = options.kubeconfig.as_deref().map(absolute).transpose()?;
    let node = options.node.as_deref().map(node_name).transpose()?;
    let verification = Verification {
        settings,
        runtime: locate(args.runtime_dir.as_deref()),
        kubeconfig: kubeconfig.or(cluster.kubeconfig),
        node_is_named: node.is_some(),
        node: OnceCell::new_with(node.or(cluster.node_name)),
        timeout: options.timeout,
        told: OnceCell::new(),
        reports: !options.no_report,
        say: print_error,
    };
    let looked = match options.repair {
        true => verification.repair().await,
        false => verification.compare().await,
    };
    let look = looked.map_err(|error| match error {
        VerificationError::Unasked(why) => {
            Exit::Unavailable(format!("the cluster could not be asked: {why}"))
        }
        error => Exit::failed(error),
    })?;
    if let Some(unknown) = verification
        .told
        .get()
        .and_then(|told| told.unknown.clone())
    {
        print_error(&unknown);
    }
    for (id, phase) in &look.others {
        print_error(&format!("{id}: not compared: {phase}"));
    }
    let found = &look.report;
    report(
        found,
        options.json,
        |screen| text(&look, screen),
        found.agrees,
    )
}

fn absolute(path: &Path) -> Result<PathBuf, Exit> {
    std::path::absolute(path).map_err(|error| Exit::Usage(format!("--kubeconfig: {error}")))
}

fn node_name(text: &str) -> Result<NodeName, Exit> {
    let unfit = || Exit::Usage(format!("--node: \"{text}\" is not the name of a Node"));
    NodeName::parse(text).ok_or_else(unfit)
}

fn text(look: &Look, screen: &Screen) -> String {
    let found = &look.report;
    let Report { node, server, .. } = found;
    let kubeconfig = look.kubeconfig.display();
    let mut lines = vec![format!(
        "node {node}, API server {server}, kubeconfig {kubeconfig}"
    )];
    if found.stale_owner {
        lines.push(format!(
            "CSINode {node} belongs to an earlier Node object and will be garbage-collected; verify --repair then restores its drivers"
        ));
    }
    for driver in &found.drivers {
        lines.extend(driver_lines(driver, found, screen));
    }
    lines.extend(summary(found));
    lines.join("\n")
}

fn driver_lines(driver: &DriverReport, found: &Report, screen: &Screen) -> Vec<String> {
    let (node, name) = (&found.node, &driver.name);
    let word = match (driver.agrees, driver.repaired) {
        (true, true) => "repaired",
        (true, false) => "agrees",
        (false, _) => "differs",
    };
    let mut lines = vec![format!("{name}: {word}")];
    let room = screen.width().map(|width| width.saturating_sub(KEY));
    for difference in driver.shown() {
        let is_disagreement = difference.what.is_disagreement();
        let key = match is_disagreement {
            true => "  differs",
            false => "  note",
        };
        lines.extend(keyed(key, KEY, wrap(&difference.words(node), room)));
        // Without a Node, nothing can be corrected in it.
        if found.node_found || !is_disagreement {
            let fix = difference.fix(node, name);
            lines.extend(keyed("  fix", KEY, wrap(&fix, room)));
        }
    }
    lines
}

fn summary(found: &Report) -> Vec<String> {
    let node = &found.node;
    let all = found.drivers.len();
    let agreeing = found.drivers.iter().filter(|driver| driver.agrees).count();
    let drivers = if all == 1 { "driver" } else { "drivers" };
    let mut lines = vec![match all - agreeing {
        _ if all == 0 => "No driver is registered, so there is nothing to compare.".to_owned(),
        0 => format!("The cluster agrees with {agreeing} of {all} {drivers}."),
        differing => format!("The cluster disagrees about {differing} of {all} {drivers}."),
    }];
    if !found.node_found {
        lines.push(format!(
            "The Node object {node} does not exist. Restart the kubelet, which creates it, unless the name is wrong."
        ));
    }
    lines
}
