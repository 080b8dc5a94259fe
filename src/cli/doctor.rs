//! `doctor`: says why a driver is not registered, and how to fix it.

use std::path::Path;

use super::args::Args;
use super::client::connect;
use super::configuration::load;
use super::exit::Exit;
use super::render::{Screen, keyed, report, wrap};
use crate::api::control::ClientError;
use crate::api::status;
use crate::cluster::program::{self, NoReport};
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::locate;
use crate::doctor::{Diagnosis, Inputs, Level};
use crate::driver::phase::Phase;
use crate::grpc::proto::control::Status;
use crate::os::text::printable;

/// The columns before the words of a finding.
const KEY: usize = 8;

pub(crate) async fn doctor(args: &Args, proc: &Path, json: bool) -> Result<(), Exit> {
    let mut counts = String::new();
    let diagnosis = match load(args) {
        Ok(loaded) => {
            let runtime = locate(args.runtime_dir.as_deref());
            let daemon = async { connect(args).await?.status_with_volumes().await }.await;
            let inputs = Inputs {
                settings: loaded.settings,
                cluster: match &daemon {
                    Ok(status) if has_registered(status) => {
                        Some(program::ask(args.config.as_deref(), &runtime).await)
                    }
                    Err(ClientError::Forbidden(_)) => {
                        let why = "run the doctor as root".to_owned();
                        Some(Err(NoReport::Refused(why)))
                    }
                    Ok(_) | Err(_) => None,
                },
                runtime,
                daemon,
                proc: proc.to_owned(),
                reach: Reach::now(),
            };
            counts.extend(inputs.daemon.as_ref().map(summary));
            Diagnosis::of(&inputs).await
        }
        Err(error) => Diagnosis::of_bad_configuration(error.to_string()),
    };
    let text = |screen: &Screen| text(&diagnosis, &counts, screen);
    report(&diagnosis, json, text, diagnosis.healthy)
}

/// The cluster knows nothing of a driver that no kubelet has registered.
fn has_registered(status: &Status) -> bool {
    let registered = Phase::Registered.as_str();
    let mut drivers = status.drivers.iter();
    drivers.any(|driver| driver.phase == registered)
}

/// How many of the daemon's drivers are ready, and how many of their volumes are in use, in brackets.
fn summary(now: &Status) -> String {
    let all = now.drivers.len();
    let ready = now.drivers.iter().filter(|driver| status::is_ready(driver));
    let volumes: u64 = now.drivers.iter().filter_map(|driver| driver.volumes).sum();
    let in_use = match volumes {
        0 => String::new(),
        1 => ", 1 volume in use".to_owned(),
        volumes => format!(", {volumes} volumes in use"),
    };
    format!(" ({} of {all} drivers ready{in_use})", ready.count())
}

fn text(diagnosis: &Diagnosis, counts: &str, screen: &Screen) -> String {
    let mut lines = Vec::new();
    let room = screen.width().map(|width| width.saturating_sub(KEY));
    for finding in &diagnosis.findings {
        let severity = screen.paint.severity(finding.level == Level::Fault);
        let driver = finding.driver.iter();
        let driver: String = driver.map(|id| format!("{}: ", printable(id))).collect();
        lines.push(format!("{severity}: {driver}{}", finding.check));
        for (key, words) in [("  found", &finding.found), ("  fix", &finding.fix)] {
            let wrapped = words.lines().flat_map(|line| wrap(&printable(line), room));
            lines.extend(keyed(key, KEY, wrapped.collect()));
        }
    }
    if diagnosis.healthy {
        let none = if diagnosis.findings.is_empty() {
            "problems"
        } else {
            "faults"
        };
        lines.push(format!("No {none} found{counts}."));
    }
    if let Some(why) = &diagnosis.cluster_not_asked {
        lines.push(format!("The cluster was not asked: {why}."));
    }
    lines.join("\n")
}
