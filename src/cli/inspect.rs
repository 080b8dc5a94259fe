//! `inspect`: asks a driver who it is, and says what would keep it from being registered.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::{Args, InspectOptions};
use super::client::{failed, in_runtime};
use super::exit::{Exit, complain};
use super::render::Screen;
use super::status::is_gone;
use super::{load, sources};
use crate::cli::render::paint::{Paint, Tone};
use crate::config::Settings;
use crate::csi::error::DriverError;
use crate::csi::inspection::Inspection;
use crate::csi::query::DriverQuery;
use crate::csi::rules::Breach;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::socket::SUN_PATH_MAX;
use crate::os::text::{printable, printable_json};

/// What is printed as JSON.
#[derive(Serialize)]
struct InspectReport<'a> {
    socket: &'a Path,
    usable: bool,
    #[serde(flatten)]
    inspection: &'a Inspection,
}

pub(crate) fn inspect(args: &Args, options: &InspectOptions) -> Result<(), Exit> {
    let socket = path(&options.socket);
    let settings = match load(args) {
        Ok(loaded) => Some(loaded.settings),
        // What a driver says does not depend on our configuration; only a path's length does.
        Err(_) if sources(args).config.is_none() => None,
        Err(error) => return Err(error.into()),
    };
    let mut driver = settings.clone().unwrap_or_default().driver("inspected");
    driver.csi_socket.clone_from(&socket);
    let query = DriverQuery::new(&driver, false, &Reach::now());
    in_runtime(async {
        // Nobody is to look at a silent terminal for minutes.
        let slow = |late: DriverError| complain(&late.to_string());
        let mut seen = query.inspect(slow).await.map_err(|trouble| {
            if trouble.is_absence() {
                let socket = socket.display();
                failed(format!(
                    "there is no socket {socket}: start the driver, or compare the endpoint that it is given"
                ))
            } else {
                failed(trouble)
            }
        })?;
        seen.breaches
            .extend(lengths(&seen, &socket, settings.as_ref()));
        let mut screen = Screen::stdout();
        let text = if options.json {
            let report = InspectReport {
                socket: &socket,
                usable: seen.is_usable(),
                inspection: &seen,
            };
            printable_json(serde_json::to_string_pretty(&report).map_err(failed)?)
        } else {
            text(&seen, screen.paint())
        };
        is_gone(screen.print(&text))?;
        Exit::no_unless(seen.is_usable())
    })
}

fn path(argument: &Path) -> PathBuf {
    let bare = argument
        .to_str()
        .and_then(|text| text.strip_prefix("unix:"))
        .map(|path| path.strip_prefix("//").unwrap_or(path));
    bare.map_or_else(|| argument.to_owned(), PathBuf::from)
}

/// Paths that are too long for a socket on this node.
fn lengths(seen: &Inspection, socket: &Path, settings: Option<&Settings>) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let length = socket.as_os_str().len();
    if length > SUN_PATH_MAX {
        breaches.push(Breach::fatal(format!(
            "{} has {length} bytes, and the path of a socket may have {SUN_PATH_MAX}",
            socket.display()
        )));
    }
    let name = seen.name.as_deref().map(DriverName::parse);
    if let (Some(Ok(name)), Some(settings)) = (name, settings)
        && let Err(too_long) = settings.layout().check(&name)
    {
        breaches.push(Breach::fatal(too_long.to_string()));
    }
    breaches
}

fn text(seen: &Inspection, paint: Paint) -> String {
    let mut out = String::new();
    let mut line = |key: &str, value: &str| out += &format!("{key:<14}{value}\n");
    let told = |value: &Option<String>| value.as_deref().map_or("-".to_owned(), printable);
    line("name", &told(&seen.name));
    line("version", &told(&seen.vendor_version));
    line("node id", &told(&seen.node_id));
    line(
        "volume limit",
        &match seen.max_volumes {
            Some(limit) if limit <= 0 => format!("{limit} (the cluster decides)"),
            Some(limit) => limit.to_string(),
            None => "-".to_owned(),
        },
    );
    for (key, values) in [
        ("topology", &seen.printable_topology()),
        ("plugin can", &seen.plugin_capabilities),
        ("node can", &seen.node_capabilities),
    ] {
        line(key, values.first().map_or("-", String::as_str));
        values.iter().skip(1).for_each(|value| line("", value));
    }
    for (number, call) in seen.calls.iter().enumerate() {
        let key = if number == 0 { "time taken" } else { "" };
        let failed = if call.error.is_some() { "  failed" } else { "" };
        line(
            key,
            &format!("{:>9.3} ms  {}{failed}", call.milliseconds, call.method),
        );
    }
    for breach in &seen.breaches {
        let (word, tone) = if breach.fatal {
            ("fault", Tone::Bad)
        } else {
            ("warning", Tone::Pending)
        };
        out += &format!("{}: {}\n", paint.paint(tone, word), breach.what);
    }
    out += if seen.is_usable() {
        "the driver can be registered"
    } else {
        "the driver cannot be registered like this"
    };
    out
}
