//! `inspect`: asks a driver for its identity, and names the rules of CSI that it breaks, or prints the
//! CSIDriver object that fits the driver.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::args::Args;
use super::client::connect;
use super::configuration::load;
use super::exit::{Exit, print_error};
use super::render::paint::Paint;
use super::render::{Screen, keyed, report};
use super::selection::{self, no_driver};
use crate::config::{DriverSettings, Settings};
use crate::csi::csidriver::CsiDriverObject;
use crate::csi::error::DriverError;
use crate::csi::inspection::{InspectedCall, Inspection};
use crate::csi::query::DriverQuery;
use crate::csi::rules::Breach;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::socket::SUN_PATH_MAX;
use crate::grpc::client::without_scheme;
use crate::os::text::printable;

/// The columns before a value.
const KEY: usize = 14;

/// The output as JSON.
#[derive(Serialize)]
struct InspectReport<'a> {
    socket: &'a Path,
    usable: bool,
    #[serde(flatten)]
    inspection: &'a Inspection,
}

/// The driver to ask.
struct Inspected {
    /// As the daemon or the configuration knows the driver, if it was not given as a socket.
    id: Option<String>,
    socket: PathBuf,
}

pub(crate) async fn inspect(args: &Args, driver: &Path, json: bool) -> Result<(), Exit> {
    let Questioning { settings, query } = Questioning::of(args, driver).await?;
    let socket = query.path();
    let inspection = query.inspect(report_slow).await;
    let mut inspection = inspection.map_err(|error| unanswered(&error, socket))?;
    inspection
        .breaches
        .extend(lengths(&inspection, socket, settings.as_ref()));
    let usable = inspection.is_usable();
    let text = |screen: &Screen| text(socket, &inspection, screen.paint);
    let inspected = InspectReport {
        socket,
        usable,
        inspection: &inspection,
    };
    report(&inspected, json, text, usable)
}

/// Prints the CSIDriver object on stdout, and the problems on stderr, so that stdout can go to kubectl.
pub(crate) async fn csidriver(args: &Args, driver: &Path, json: bool) -> Result<(), Exit> {
    let Questioning { query, .. } = Questioning::of(args, driver).await?;
    let socket = query.path();
    let asked = query.inspect_with_controller(report_slow).await;
    let (inspection, attaching) = asked.map_err(|error| unanswered(&error, socket))?;
    let suggested = CsiDriverObject::suggested(&inspection, attaching, socket);
    let (object, warnings) = suggested.map_err(Exit::failed)?;
    for breach in inspection.breaches.iter().chain(&warnings) {
        let severity = Paint::Plain.severity(breach.fatal);
        print_error(&format!("{severity}: {}", breach.what));
    }
    report(&object, json, |_| object.to_string(), true)
}

/// A driver that was found, and the way to ask it.
struct Questioning {
    /// None if the configuration is not valid.
    settings: Option<Settings>,
    query: DriverQuery,
}

impl Questioning {
    async fn of(args: &Args, driver: &Path) -> Result<Questioning, Exit> {
        let settings = match load(args) {
            Ok(loaded) => Some(loaded.settings),
            // The driver's answers do not depend on our configuration; only the length of a path does.
            Err(_) if args.config.is_none() => None,
            Err(error) => return Err(error.into()),
        };
        let Inspected { id, socket } = find(args, driver, settings.as_ref()).await?;
        let id = id.as_deref().unwrap_or("inspected");
        let mut driver = settings.clone().unwrap_or_default().driver(id);
        driver.csi_socket = socket;
        let query = DriverQuery::new(&driver, false, &Reach::now());
        Ok(Questioning { settings, query })
    }
}

/// The terminal must not stay silent for minutes.
fn report_slow(late: DriverError) {
    print_error(&late.to_string());
}

/// Why the driver did not answer.
fn unanswered(error: &DriverError, socket: &Path) -> Exit {
    if error.is_absence() {
        let socket = socket.display();
        return Exit::Failed(format!(
            "the socket {socket} does not exist: start the driver, or compare the path with its --endpoint"
        ));
    }
    Exit::failed(error)
}

/// A socket as it is given, or the socket of the driver with this id or name. A file wins, and only a
/// text without a `/` can be a driver.
async fn find(args: &Args, given: &Path, settings: Option<&Settings>) -> Result<Inspected, Exit> {
    let address = given.to_str().unwrap_or_default();
    let path = match without_scheme(address) {
        "" => given,
        path => Path::new(path),
    };
    let is_path = path != given || address.is_empty() || address.contains('/');
    // In plugins_dir each driver has a directory with its id.
    if is_path || path.metadata().is_ok_and(|file| !file.is_dir()) {
        return Ok(Inspected {
            id: None,
            socket: path.to_owned(),
        });
    }
    let driver = address;
    let asked = async { connect(args).await?.status().await };
    let why = match asked.await {
        Ok(status) => match selection::find(&status, driver) {
            Some(known) => {
                return Ok(Inspected {
                    id: Some(known.id.clone()),
                    socket: PathBuf::from(&known.csi_socket),
                });
            }
            None => no_driver(&status, driver),
        },
        Err(error) => match configured(driver, settings) {
            Ok(inspected) => return Ok(inspected),
            Err(why) => format!("{why}, and the daemon does not tell: {error}"),
        },
    };
    Err(Exit::Failed(format!(
        "there is no file \"{driver}\" in this directory, and no such driver: {why}"
    )))
}

/// The driver with this id or this pinned name in the configuration, or else in plugins_dir; or why
/// there is none.
fn configured(driver: &str, settings: Option<&Settings>) -> Result<Inspected, String> {
    let Some(settings) = settings else {
        return Err("the configuration is not valid (see check)".to_owned());
    };
    let is_named = |(_, known): &(&String, &DriverSettings)| {
        known.name.as_ref().map(DriverName::as_str) == Some(driver)
    };
    let drivers = || settings.drivers.iter();
    let by_id = drivers().find(|(id, _)| *id == driver);
    if let Some((id, known)) = by_id.or_else(|| drivers().find(is_named)) {
        return Ok(Inspected {
            id: Some(id.clone()),
            socket: known.csi_socket.clone(),
        });
    }
    let socket = settings.driver(driver).csi_socket;
    if socket.symlink_metadata().is_ok() {
        return Ok(Inspected {
            id: Some(driver.to_owned()),
            socket,
        });
    }
    let socket = socket.display();
    Err(format!(
        "the configuration has no table [drivers.\"{driver}\"], {socket} does not exist"
    ))
}

/// Paths that are too long for a socket on this node.
fn lengths(seen: &Inspection, socket: &Path, settings: Option<&Settings>) -> Vec<Breach> {
    let (path, length) = (socket.display(), socket.as_os_str().len());
    let socket = (length > SUN_PATH_MAX).then(|| {
        format!("{path} has {length} bytes, and the path of a socket may have {SUN_PATH_MAX}")
    });
    let name = seen.name.as_deref().map(DriverName::parse);
    let name = name.and_then(Result::ok).zip(settings);
    let name = name.and_then(|(name, settings)| settings.layout().check(&name).err());
    let too_long = socket
        .into_iter()
        .chain(name.map(|error| error.to_string()));
    too_long.map(Breach::fatal).collect()
}

fn text(socket: &Path, seen: &Inspection, paint: Paint) -> String {
    let told = |value: &Option<String>| value.as_deref().map(printable).into_iter().collect();
    let limit = seen.max_volumes.map(|limit| match limit {
        ..=0 => format!("{limit} (the cluster decides)"),
        1.. => limit.to_string(),
    });
    let call = |call: &InspectedCall| {
        let failed = if call.error.is_some() { "  failed" } else { "" };
        format!("{:>9.3} ms  {}{failed}", call.milliseconds, call.method)
    };
    let rows: [(&str, Vec<String>); 9] = [
        ("socket", vec![printable(&socket.display().to_string())]),
        ("name", told(&seen.name)),
        ("version", told(&seen.vendor_version)),
        ("node id", told(&seen.node_id)),
        ("volume limit", limit.into_iter().collect()),
        ("topology", seen.printable_topology()),
        ("plugin can", seen.plugin_capabilities.clone()),
        ("node can", seen.node_capabilities.clone()),
        ("time taken", seen.calls.iter().map(call).collect()),
    ];
    let mut lines = Vec::new();
    for (key, mut values) in rows {
        if values.is_empty() {
            values.push("-".to_owned());
        }
        lines.extend(keyed(key, KEY, values));
    }
    let breach = |breach: &Breach| format!("{}: {}", paint.severity(breach.fatal), breach.what);
    lines.extend(seen.breaches.iter().map(breach));
    let not = if seen.is_usable() { "" } else { "not" };
    lines.push(format!("the driver can{not} be registered"));
    lines.join("\n")
}
