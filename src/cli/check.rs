//! `check`: a dry run. Whether the configuration is valid, and what the daemon would do with it.

mod forecast;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use self::forecast::{Planned, Running, forecast};
use super::args::Args;
use super::client::connect;
use super::configuration::{Accepted, accepted};
use super::exit::{Exit, print_error};
use super::render::print;
use crate::api::control::ClientError;
use crate::config::{Loaded, Settings, csi_socket};
use crate::csi::discover::{IdleDirectory, found_now, idle_now, unseen_now};
use crate::csi::trust::Exposure;
use crate::disk::directory::{is_missing, missing_words};
use crate::disk::layout::Layout;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::runtime_dir;
use crate::os::text::printable;
use crate::supervisor::saved_state::SavedState;

/// Takes the place of a driver's name that the configuration does not have.
const UNKNOWN: &str = "NAME";

/// What discovery finds in plugins_dir now.
#[derive(Default)]
struct Plugins {
    found: Vec<String>,
    idle: Vec<IdleDirectory>,
    /// Directories on a file system that may hang, which `check` does not look at.
    unseen: Vec<String>,
}

pub(crate) async fn check(args: &Args) -> Result<(), Exit> {
    let Accepted {
        loaded,
        layout,
        changes: _,
        mut warnings,
    } = accepted(args).await?;
    warnings.extend(loaded.warnings.iter().cloned());
    let settings = &loaded.settings;
    let reach = Reach::now();
    warnings.extend(missing_plugins_dir(settings, &reach));
    let plugins = Plugins::now(settings, &reach).unwrap_or_else(|error| {
        let directory = settings.plugins_dir.display();
        warnings.push(format!("cannot look for drivers in {directory}: {error}"));
        Plugins::default()
    });
    let mut report = String::from("the configuration is valid\n");
    report += &files(&loaded);
    report += &plan(settings, &layout);
    report += &discovery(settings, &plugins, &reach);
    if let Some(why) = &loaded.root_found {
        let plugins_registry = settings.kubelet.plugins_registry.display();
        report += &format!("kubelet.root_dir is \"auto\": links go to {plugins_registry}; {why}\n");
    }
    report += &compare(args, settings, &layout, &plugins, &reach).await;
    print(&report)?;
    for warning in warnings {
        print_error(&format!("warning: {warning}"));
    }
    Ok(())
}

/// The registrar never creates plugins_dir: it would wait indefinitely for a misspelled path.
fn missing_plugins_dir(settings: &Settings, reach: &Reach) -> Option<String> {
    let directory = &settings.plugins_dir;
    let mut sockets = settings.drivers.values().map(|driver| &driver.csi_socket);
    let is_used = settings.discovery.enabled || sockets.any(|socket| socket.starts_with(directory));
    if !is_used || reach.may_hang(directory) {
        return None;
    }
    let what = match fs::metadata(directory) {
        Ok(found) if found.is_dir() => return None,
        Ok(_) => " is not a directory".to_owned(),
        Err(error) if is_missing(&error) => {
            let words = missing_words(directory).unwrap_or_default();
            format!(": {words}; check the spelling too")
        }
        Err(error) => format!(" cannot be looked at: {error}"),
    };
    Some(format!("plugins_dir = \"{}\"{what}", directory.display()))
}

impl Plugins {
    fn now(settings: &Settings, reach: &Reach) -> io::Result<Plugins> {
        Ok(Plugins {
            found: found_now(settings, reach)?,
            idle: idle_now(settings, reach)?,
            unseen: unseen_now(settings, reach)?,
        })
    }
}

/// The files that were read, and those that were not.
fn files(loaded: &Loaded) -> String {
    let read = loaded.files.iter();
    let read = read.map(|file| printable(&file.to_string_lossy()));
    let read = read.map(|file| format!("read           {file}\n"));
    let passed_over = loaded.passed_over.iter();
    let passed_over = passed_over.map(|file| format!("passed over    {file}\n"));
    read.chain(passed_over).collect()
}

/// What the daemon would do for each driver that the configuration declares.
fn plan(settings: &Settings, layout: &Layout) -> String {
    let unknown = DriverName::parse(UNKNOWN).expect("capitals follow the rules for names");
    let mut plan = String::new();
    for (id, driver) in &settings.drivers {
        let name = driver.name.as_ref().unwrap_or(&unknown);
        plan += &format!("driver {id}\n");
        plan += &format!("  waits for      {}\n", driver.csi_socket.display());
        plan += &format!("  serves         {}\n", layout.socket(name).display());
        let link = layout.link(name);
        let target = layout.target(name);
        let (link, target) = (link.display(), target.display());
        plan += &format!("  links          {link} -> {target}\n");
        plan += &format!("  tells kubelet  endpoint {}\n", driver.endpoint.display());
    }
    plan
}

/// The rule of discovery, and what is in plugins_dir now.
fn discovery(settings: &Settings, plugins: &Plugins, reach: &Reach) -> String {
    let discovery = &settings.discovery;
    if !discovery.enabled {
        return if settings.drivers.is_empty() {
            "no drivers are configured, and discovery is off\n".to_owned()
        } else {
            "discovery is off: the daemon registers only these drivers\n".to_owned()
        };
    }
    let directory = &settings.plugins_dir;
    let sockets = directory.join("*/csi.sock");
    let mut lines = format!("discovery is on: {} is a driver", sockets.display());
    if !discovery.exclude.is_empty() {
        lines += &format!(", except {}", discovery.exclude.join(", "));
    }
    lines += "\n";
    for id in &plugins.found {
        let socket = csi_socket(directory, id);
        lines += &format!("discovered     {id}: {}", socket.display());
        if let Ok(Some(exposure)) = Exposure::of(&socket) {
            lines += &format!("; the daemon does not accept it: {exposure}");
        }
        lines += "\n";
    }
    for idle in &plugins.idle {
        lines += &format!("no csi.sock    {idle}\n");
    }
    let hangs = |path: &Path| {
        format!(
            "not looked at  {}: on a file system that may hang\n",
            path.display()
        )
    };
    if reach.may_hang(directory) {
        lines += &hangs(directory);
    }
    let unseen = plugins.unseen.iter();
    lines += &unseen
        .map(|id| hangs(&directory.join(id)))
        .collect::<String>();
    lines
}

/// What a reload or a restart of the daemon that runs would do to each driver.
async fn compare(
    args: &Args,
    settings: &Settings,
    layout: &Layout,
    plugins: &Plugins,
    reach: &Reach,
) -> String {
    let status = match async { connect(args).await?.status_with_volumes().await }.await {
        Ok(status) => status,
        Err(ClientError::NoDaemon(_)) => {
            return "no daemon runs, so nothing was compared with it\n".to_owned();
        }
        Err(error) => return format!("nothing was compared with the daemon: {error}\n"),
    };
    let runtime = runtime_dir::locate(args.runtime_dir.as_deref());
    let saved = SavedState::peek(&runtime_dir::state(&runtime));
    let running = Running::of(&status, saved.as_ref(), settings);
    // The daemon takes a path that may hang for existing until it has looked at it.
    let ids = status.drivers.iter().map(|driver| &driver.id);
    let unseen = ids.filter(|id| reach.may_hang(&csi_socket(&settings.plugins_dir, id)));
    let found = plugins.found.iter().chain(&plugins.unseen).chain(unseen);
    let found: BTreeSet<String> = found.cloned().collect();
    let planned = Planned {
        settings,
        layout,
        found: &found,
    };
    let forecasts = forecast(&running, &planned);
    if forecasts.is_empty() {
        return "the running daemon has no drivers to compare\n".to_owned();
    }
    let mut lines = "compared with the running daemon, a reload or a restart would\n".to_owned();
    for forecast in forecasts {
        lines += &format!("{forecast}\n");
    }
    lines
}
