//! `doctor`: prints why a driver is not registered, and how to fix it.

use serde::Serialize;

use super::args::{Args, DoctorOptions};
use super::client::{connect, failed, in_runtime};
use super::exit::Exit;
use super::load;
use super::render::Screen;
use super::status::is_gone;
use crate::api::control::ClientError;
use crate::cli::render::paint::{Paint, Tone};
use crate::cli::render::wrap;
use crate::config::Settings;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir::locate;
use crate::doctor::{Diagnosis, Finding, Inputs, Level};
use crate::grpc::proto::control::Status;
use crate::os::text::printable;

/// What is printed as JSON.
#[derive(Serialize)]
struct DoctorReport<'a> {
    healthy: bool,
    #[serde(flatten)]
    diagnosis: &'a Diagnosis,
}

pub(crate) fn doctor(args: &Args, options: &DoctorOptions) -> Result<(), Exit> {
    in_runtime(async {
        let diagnosis = match load(args) {
            Ok(loaded) => Diagnosis::of(&inputs(args, options, loaded.settings).await).await,
            Err(error) => Diagnosis::of_bad_configuration(error.to_string()),
        };
        let mut screen = Screen::stdout();
        let text = if options.json {
            let report = DoctorReport {
                healthy: diagnosis.is_healthy(),
                diagnosis: &diagnosis,
            };
            serde_json::to_string_pretty(&report).map_err(failed)?
        } else {
            text(&diagnosis, screen.width(), screen.paint())
        };
        is_gone(screen.print(&text))?;
        Exit::no_unless(diagnosis.is_healthy())
    })
}

async fn inputs(args: &Args, options: &DoctorOptions, settings: Settings) -> Inputs {
    Inputs {
        settings,
        runtime: locate(args.runtime_dir.as_deref()),
        daemon: status(args).await,
        proc: options.proc.clone(),
        reach: Reach::now(),
    }
}

async fn status(args: &Args) -> Result<Status, ClientError> {
    connect(args).await?.status().await
}

fn text(diagnosis: &Diagnosis, width: Option<usize>, paint: Paint) -> String {
    let mut lines = Vec::new();
    for finding in &diagnosis.findings {
        let (word, tone) = match finding.level {
            Level::Fault => ("fault", Tone::Bad),
            Level::Warning => ("warning", Tone::Pending),
        };
        lines.push(format!("{}: {}", paint.paint(tone, word), title(finding)));
        for (key, words) in [("found", &finding.found), ("fix", &finding.fix)] {
            let room = width.map(|width| width.saturating_sub(8));
            let broken = words.lines().flat_map(|line| wrap(&printable(line), room));
            for (number, line) in broken.enumerate() {
                let key = if number == 0 { key } else { "" };
                lines.push(format!("  {key:<6}{line}"));
            }
        }
    }
    lines.extend(diagnosis.summary());
    lines.join("\n")
}

fn title(finding: &Finding) -> String {
    match &finding.driver {
        Some(driver) => format!("{}: {}", printable(driver), finding.check),
        None => finding.check.to_owned(),
    }
}
