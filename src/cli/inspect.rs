//! `inspect`: asks a driver who it is, and says which rules of CSI it breaks.

use std::path::Path;

use serde::Serialize;

use super::args::Args;
use super::configuration::load;
use super::exit::{Exit, print_error};
use super::ndr::flags::without_scheme;
use super::render::paint::Paint;
use super::render::{Screen, keyed, report};
use crate::config::Settings;
use crate::csi::error::DriverError;
use crate::csi::inspection::{InspectedCall, Inspection};
use crate::csi::query::DriverQuery;
use crate::csi::rules::Breach;
use crate::disk::name::DriverName;
use crate::disk::reach::Reach;
use crate::disk::socket::SUN_PATH_MAX;
use crate::os::text::printable;

/// The columns before a value.
const KEY: usize = 14;

/// What is printed as JSON.
#[derive(Serialize)]
struct InspectReport<'a> {
    socket: &'a Path,
    usable: bool,
    #[serde(flatten)]
    inspection: &'a Inspection,
}

pub(crate) async fn inspect(args: &Args, socket: &Path, json: bool) -> Result<(), Exit> {
    let socket = socket
        .to_str()
        .map_or(socket, |address| Path::new(without_scheme(address)));
    let settings = match load(args) {
        Ok(loaded) => Some(loaded.settings),
        // The driver's answers do not depend on our configuration; only the length of a path does.
        Err(_) if args.config.is_none() => None,
        Err(error) => return Err(error.into()),
    };
    let mut driver = settings.clone().unwrap_or_default().driver("inspected");
    driver.csi_socket = socket.to_owned();
    let query = DriverQuery::new(&driver, false, &Reach::now());
    // The terminal must not stay silent for minutes.
    let slow = |late: DriverError| print_error(&late.to_string());
    let mut inspection = query.inspect(slow).await.map_err(|error| {
        if error.is_absence() {
            let socket = socket.display();
            Exit::Failed(format!(
                "the socket {socket} does not exist: start the driver, or compare the path with its --endpoint"
            ))
        } else {
            Exit::failed(error)
        }
    })?;
    inspection
        .breaches
        .extend(lengths(&inspection, socket, settings.as_ref()));
    let usable = inspection.is_usable();
    let text = |screen: &Screen| text(&inspection, screen.paint);
    let inspected = InspectReport {
        socket,
        usable,
        inspection: &inspection,
    };
    report(&inspected, json, text, usable)
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

fn text(seen: &Inspection, paint: Paint) -> String {
    let told = |value: &Option<String>| value.as_deref().map(printable).into_iter().collect();
    let limit = seen.max_volumes.map(|limit| match limit {
        ..=0 => format!("{limit} (the cluster decides)"),
        1.. => limit.to_string(),
    });
    let call = |call: &InspectedCall| {
        let failed = if call.error.is_some() { "  failed" } else { "" };
        format!("{:>9.3} ms  {}{failed}", call.milliseconds, call.method)
    };
    let rows: [(&str, Vec<String>); 8] = [
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
