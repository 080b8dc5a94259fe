//! `doctor`: says why a driver is not registered, and how to fix it.

use std::path::Path;

use super::args::Args;
use super::client::connect;
use super::configuration::load;
use super::exit::Exit;
use super::render::{Screen, keyed, report, wrap};
use crate::api::status;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::locate;
use crate::doctor::{Diagnosis, Inputs, Level};
use crate::grpc::proto::control::Status;
use crate::os::text::printable;

/// The columns before the words of a finding.
const KEY: usize = 8;

pub(crate) async fn doctor(args: &Args, proc: &Path, json: bool) -> Result<(), Exit> {
    let mut ready = String::new();
    let diagnosis = match load(args) {
        Ok(loaded) => {
            let inputs = Inputs {
                settings: loaded.settings,
                runtime: locate(args.runtime_dir.as_deref()),
                daemon: async { connect(args).await?.status().await }.await,
                proc: proc.to_owned(),
                reach: Reach::now(),
            };
            ready.extend(inputs.daemon.as_ref().map(count_ready));
            Diagnosis::of(&inputs).await
        }
        Err(error) => Diagnosis::of_bad_configuration(error.to_string()),
    };
    let text = |screen: &Screen| text(&diagnosis, &ready, screen);
    report(&diagnosis, json, text, diagnosis.healthy)
}

/// How many of the daemon's drivers are ready, in brackets.
fn count_ready(now: &Status) -> String {
    let all = now.drivers.len();
    let ready = now.drivers.iter().filter(|driver| status::is_ready(driver));
    format!(" ({} of {all} drivers ready)", ready.count())
}

fn text(diagnosis: &Diagnosis, ready: &str, screen: &Screen) -> String {
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
        let none = if lines.is_empty() {
            "problems"
        } else {
            "faults"
        };
        lines.push(format!("No {none} found{ready}."));
    }
    lines.join("\n")
}
